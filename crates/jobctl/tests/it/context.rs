//! `jobctl context …`, and the choice of the service.

use insta::assert_snapshot;

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
