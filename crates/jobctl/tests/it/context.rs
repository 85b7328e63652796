//! `jobctl context …`, and the choice of the service.

use insta::assert_snapshot;
use orchestrator::Settings;
use orchestrator::settings::Auth;

use crate::service::{Service, finish, program};

#[tokio::test]
async fn contexts_are_kept_in_the_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut transcript = String::new();
    for arguments in [
        &["context", "list"][..],
        &["context", "set", "lab"],
        &["context", "set", "lab", "--url", "http://lab:1234", "--namespace", "research"],
        &["context", "set", "home", "--url", "http://home:1234"],
        &["context", "use", "home"],
        &["context", "use", "moon"],
        &["context", "list"],
        &["context", "delete", "home"],
        &["context", "list", "-o", "yaml"],
    ] {
        let ran = finish(program(folder.path(), arguments), arguments, "", None).await;
        transcript.push_str(&ran.normal());
    }
    assert_snapshot!(transcript);
    let file = std::fs::read_to_string(folder.path().join("jobctl/config.yaml")).unwrap();
    assert_eq!(file, "contexts:\n  lab:\n    url: http://lab:1234\n    namespace: research\n");
}

#[tokio::test]
async fn a_context_names_the_service_and_the_namespace() {
    let service = Service::start().await;
    let set = ["context", "set", "here", "--url", service.url(), "-n", "research"];
    assert_eq!(finish(program(service.folder(), &set), &set, "", None).await.code, Some(0));
    let run = ["run", "--detach", "ok"];
    let ran = finish(program(service.folder(), &run), &run, "", None).await;
    let job = service.client.describe_job(ran.stdout.trim()).await.unwrap();
    assert_eq!(job.spec.namespace, "research");
}

#[tokio::test]
async fn a_configuration_with_an_unknown_key_is_refused() {
    let service = Service::start().await;
    service.write("config.yaml", "contexts: {}\nspeed: fast\n");
    let list = ["list", "--config", "config.yaml"];
    assert_snapshot!(service.run(&list).await.normal());
}

/// Two services with a CA each, and one without TLS: whichever was signed in to last, and however a
/// command names a service, it finds the CA and the token of that one.
#[tokio::test]
async fn services_with_and_without_a_ca_do_not_get_in_each_others_way() {
    let guarded = |settings| Settings { auth: Auth::Required, ..settings };
    let services = [
        Service::start_with(guarded).await,
        Service::start_with(guarded).await,
        Service::start().await,
    ];
    let urls = [0, 1].map(|at: usize| services[at].url().replace("http://", "https://"));
    let urls = [urls[0].clone(), urls[1].clone(), services[2].url().to_owned()];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let folder = tempfile::tempdir().unwrap();
        let run = async |arguments: &[&str], url: Option<&str>| {
            let mut command = program(folder.path(), arguments);
            if let Some(url) = url {
                command.env("JOBCTL_URL", url);
            }
            let ran = finish(command, arguments, "", None).await;
            assert_eq!(ran.code, Some(0), "{order:?}: {ran}");
            ran.stdout
        };
        for at in order {
            if at == 2 {
                run(&["context", "set", "plain", "--url", &urls[2]], None).await;
                run(&["context", "use", "plain"], None).await;
            } else {
                let token = services[at].folder().join("data/admin.token");
                let token = token.to_str().unwrap();
                let said = run(&["login", "--url", &urls[at], "--token-file", token], None).await;
                assert!(said.contains("is the current one now"), "{said}");
            }
            // The last one is the current one.
            let shown = run(&["context", "show", "-o", "json"], None).await;
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(
                (&shown["url"], &shown["signed_in"]),
                (&urls[at].as_str().into(), &(at != 2).into())
            );
            run(&["list"], None).await;
        }
        let contexts = run(&["context", "list", "-o", "name"], None).await;
        assert_eq!(contexts.lines().count(), 3, "{contexts}");
        for current in contexts.lines() {
            run(&["context", "use", current], None).await;
            for url in &urls {
                run(&["list", "--url", url], None).await;
                run(&["list"], Some(url)).await;
            }
            for other in contexts.lines() {
                run(&["list", "--context", other], None).await;
            }
        }
    }
}
