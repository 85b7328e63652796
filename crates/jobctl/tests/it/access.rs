//! `jobctl login`, `jobctl token …`, `jobctl namespace …`.

use std::os::unix::fs::PermissionsExt;

use orchestrator::Settings;
use orchestrator::settings::Auth;

use crate::service::{Service, finish, program};
use crate::terminal::Terminal;
use crate::transcript::Transcript;

async fn guarded() -> (Service, String) {
    let service = Service::start_with(|settings| Settings {
        auth: Auth::Required,
        insecure: true,
        ..settings
    })
    .await;
    let token = std::fs::read_to_string(service.folder().join("data/admin.token"));
    let token = token.expect("the first token").trim().to_owned();
    (service, token)
}

/// Runs the program with the token of a file.
async fn with_token(service: &Service, token: &str, arguments: &[&str]) -> Transcript {
    service.write("token", &format!("{token}\n"));
    let mut command = service.command(arguments);
    command.env("JOBCTL_TOKEN_FILE", service.folder().join("token"));
    finish(command, arguments, "", Some(service.url())).await
}

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn a_token_is_verified_and_kept_for_its_service() {
    let (service, token) = guarded().await;
    let refused = service.run(&["list"]).await;
    assert_eq!(refused.code, Some(122));
    assert!(refused.stderr.contains("no credentials"), "{}", refused.stderr);
    assert!(refused.stderr.contains("jobctl login"), "{}", refused.stderr);

    let login = ["login", "--token-file", "-"];
    let wrong = service.run_with_input(&login, "jt1_x\n").await;
    assert_eq!(wrong.code, Some(122), "{}", wrong.stderr);
    let signed_in = service.run_with_input(&login, &format!("{token}\n")).await;
    assert!(done(&signed_in).ends_with("as admin (admin of all namespaces)"), "{signed_in}");
    assert!(!signed_in.stdout.contains(&token) && !signed_in.stderr.contains(&token));
    let file = service.folder().join("jobctl/credentials.yaml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    done(&service.run(&["list"]).await);
    assert_eq!(done(&service.run(&["whoami"]).await), "admin (admin of all namespaces)");

    // A token is for the service that it was given for, and no other hears of it.
    let (other, _) = guarded().await;
    let elsewhere = ["list", "--url", other.url()];
    let refused = finish(program(service.folder(), &elsewhere), &elsewhere, "", None).await;
    assert!(refused.stderr.contains("no credentials"), "{}", refused.stderr);

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = service.run(&["list"]).await;
    assert_eq!(refused.code, Some(120));
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    done(&service.run(&["logout"]).await);
    assert_eq!(service.run(&["list"]).await.code, Some(122));
    assert_eq!(service.run(&["logout"]).await.code, Some(120));
}

#[tokio::test]
async fn a_login_with_the_first_token_pins_the_ca_beside_it_and_keeps_the_service() {
    let service =
        Service::start_with(|settings| Settings { auth: Auth::Required, ..settings }).await;
    let url = service.url().replace("http://", "https://");
    let run = async |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = program(service.folder(), arguments);
        command.envs(variables.iter().copied());
        finish(command, arguments, "", Some(&url)).await
    };
    let login = ["login", "--url", &url, "--token-file", "data/admin.token"];
    let signed_in = run(&login, &[]).await;
    assert!(done(&signed_in).contains("later commands use it"), "{signed_in}");
    let file = std::fs::read_to_string(service.folder().join("jobctl/config.yaml")).unwrap();
    let ca = file.lines().find_map(|line| line.trim().strip_prefix("ca: ")).expect("a CA");
    assert!(ca.starts_with("sha256:"), "{file}");
    // Neither the address nor the CA is given again.
    assert_eq!(done(&run(&["whoami"], &[]).await), "admin (admin of all namespaces)");

    // A service that was made anew has another CA than the context.
    service.write("jobctl/config.yaml", &file.replace(ca, &format!("sha256:{}", "07".repeat(32))));
    assert_ne!(run(&["whoami"], &[]).await.code, Some(0));
    done(&run(&login, &[]).await);
    done(&run(&["whoami"], &[]).await);

    // Without the CA next to the token, no unknown service is trusted.
    let copied = service.folder().join("elsewhere.token");
    std::fs::copy(service.folder().join("data/admin.token"), &copied).unwrap();
    let copied = copied.to_str().unwrap();
    let login = ["login", "--config", "other.yaml", "--url", &url, "--token-file", copied];
    service.write("other.yaml", "");
    let refused = run(&login, &[]).await;
    assert_ne!(refused.code, Some(0), "{refused}");
    // A program names all three by variables.
    let token = ("JOBCTL_TOKEN_FILE", copied);
    let variables = [("JOBCTL_URL", url.as_str()), ("JOBCTL_CA", ca), token];
    done(&run(&["list", "--config", "other.yaml"], &variables).await);
    let ca_file = ("JOBCTL_CA", "data/ca.crt");
    let variables = [("JOBCTL_URL", url.as_str()), ca_file, token];
    done(&run(&["list", "--config", "other.yaml"], &variables).await);
    // A CA is kept so that it is found from every directory.
    let named = [&login[..], &["--ca", "data/ca.crt"]].concat();
    done(&run(&named, &[]).await);
    let file = std::fs::read_to_string(service.folder().join("other.yaml")).unwrap();
    assert!(file.contains("ca: /"), "{file}");
}

#[tokio::test]
async fn without_a_terminal_a_token_comes_from_a_file() {
    let (service, _) = guarded().await;
    let refused = service.run(&["login"]).await;
    assert_eq!(refused.code, Some(120));
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_typed_token_is_not_shown() {
    let (service, token) = guarded().await;
    let login = ["login"];
    let mut command = service.command(&login);
    let mut terminal = Terminal::attach(&mut command);
    let child = command.spawn().unwrap();
    drop(command);
    terminal.until("Token for http://").await;
    terminal.types(&format!("{token}\n"));
    let ran = service.finish(child, &login).await;
    assert!(done(&ran).contains("signed in to"), "{ran}");
    terminal.until("\r\n").await;
    assert!(!terminal.screen.contains(&token), "{}", terminal.screen);
}

#[tokio::test]
async fn tokens_are_created_listed_and_revoked() {
    let (service, admin) = guarded().await;
    let put = ["namespace", "put", "ci", "--description", "builds", "--engines", "docker,wasm"];
    assert_eq!(done(&with_token(&service, &admin, &put).await), "namespace ci is set");
    let create = ["token", "create", "build server", "-n", "ci", "--ttl", "30d"];
    let created = with_token(&service, &admin, &create).await;
    let token = done(&created).to_owned();
    assert!(token.starts_with("jt1_") && !token.contains(char::is_whitespace), "{token}");
    let who = done(&with_token(&service, &token, &["whoami"]).await).to_owned();
    assert!(who.starts_with("build server (submitter of ci, until 20"), "{who}");

    let listed = with_token(&service, &admin, &["token", "list"]).await;
    let row = done(&listed).lines().find(|line| line.contains("build server")).expect("a row");
    let id = row.split_whitespace().next().expect("an ID").to_owned();
    assert!(row.contains("submitter") && row.contains("ci") && token.contains(&id), "{row}");
    let denied = with_token(&service, &token, &["token", "list"]).await;
    assert_eq!(denied.code, Some(122));
    assert!(denied.stderr.contains("needs the role owner"), "{}", denied.stderr);

    let revoked = with_token(&service, &admin, &["token", "revoke", &id]).await;
    assert_eq!(done(&revoked), format!("token {id} of 'build server' is revoked"));
    assert_eq!(with_token(&service, &token, &["whoami"]).await.code, Some(122));
}

#[tokio::test]
async fn what_a_revoked_token_made_is_said_and_revoked_on_request() {
    let (service, admin) = guarded().await;
    let create = async |by: &str, arguments: &[&str]| {
        let arguments = [&["token", "create"], arguments].concat();
        let token = done(&with_token(&service, by, &arguments).await).to_owned();
        let id = token.split('_').nth(1).expect("an ID").to_owned();
        (token, id)
    };
    let (first, first_id) = create(&admin, &["first", "--role", "admin"]).await;
    let (second, second_id) = create(&first, &["second", "--role", "admin"]).await;
    let (third, third_id) = create(&second, &["prometheus", "--role", "monitor"]).await;
    assert!(third.starts_with("jm1_"), "{third}");
    let who = with_token(&service, &third, &["whoami"]).await;
    assert!(done(&who).starts_with("prometheus (monitor of all namespaces"), "{}", who.stdout);

    let revoked = with_token(&service, &admin, &["token", "revoke", &first_id]).await;
    let text = done(&revoked);
    let (line, note) = text.split_once('\n').expect("two lines");
    assert_eq!(line, format!("token {first_id} of 'first' is revoked"));
    assert!(note.starts_with("tokens that it made stay valid: "), "{note}");
    for made in [format!("{second_id} of 'second'"), format!("{third_id} of 'prometheus'")] {
        assert!(note.contains(&made), "{note}");
    }
    done(&with_token(&service, &third, &["whoami"]).await);
    let revoked =
        with_token(&service, &admin, &["token", "revoke", "--descendants", &second_id]).await;
    let expected = format!(
        "token {second_id} of 'second' is revoked\ntoken {third_id} of 'prometheus' is revoked"
    );
    assert_eq!(done(&revoked), expected);
    assert_eq!(with_token(&service, &third, &["whoami"]).await.code, Some(122));
    let unknown = with_token(&service, &admin, &["token", "revoke", "--subject", "ada"]).await;
    assert_eq!(unknown.code, Some(122));
    let both = ["token", "revoke", "--subject", "ada", &second_id];
    assert_eq!(with_token(&service, &admin, &both).await.code, Some(120));
}

#[tokio::test]
async fn a_namespace_says_which_nodes_match() {
    let service = Service::start().await;
    let put = ["namespace", "put", "ci", "--nodes", "pool in (a,b),gpu"];
    let text = done(&service.run(&put).await).to_owned();
    let (line, note) = text.split_once('\n').expect("two lines");
    assert_eq!(line, "namespace ci is set");
    assert!(note.starts_with("no node has labels of an admin that match"), "{note}");
}

#[tokio::test]
async fn namespaces_are_created_shown_and_deleted() {
    let service = Service::start().await;
    let put = ["namespace", "put", "small", "--networks", "None", "--publishers", ""];
    let more = ["--registries", "docker.io", "--no-capabilities", "--max-priority", "70"];
    done(&service.run(&[&put[..], &more].concat()).await);
    let shown = service.run(&["namespace", "describe", "small"]).await;
    for (label, value) in [
        ("Networks", "None"),
        ("Publishers", "none"),
        ("Engines", "all"),
        ("Registries", "docker.io"),
        ("Capabilities", "none"),
        ("Priority", "up to 70"),
    ] {
        let line = done(&shown).lines().find(|line| line.contains(label)).expect("a line");
        assert!(line.ends_with(value), "{line}");
    }
    let names = service.run(&["namespace", "list", "-o", "name"]).await;
    assert_eq!(done(&names), "default\nsmall");
    assert_eq!(
        done(&service.run(&["namespace", "delete", "small"]).await),
        "namespace small is deleted"
    );
    let gone = service.run(&["namespace", "delete", "small"]).await;
    assert_eq!(gone.code, Some(122));
    let wrong = service.run(&["namespace", "put", "a b"]).await;
    assert!(wrong.stderr.contains("the name of a namespace must have 1 to 63"), "{}", wrong.stderr);
}

#[tokio::test]
async fn the_audit_log_is_listed_and_verified() {
    let (service, admin) = guarded().await;
    let empty = with_token(&service, &admin, &["audit", "verify"]).await;
    assert_eq!(done(&empty), "changes: there is no record\nrest: there is no record");
    for name in ["a", "b", "c"] {
        done(&with_token(&service, &admin, &["namespace", "put", name]).await);
    }
    let listed =
        with_token(&service, &admin, &["audit", "list", "--operation", "putNamespace"]).await;
    assert_eq!(done(&listed).lines().count(), 4, "{listed}");
    let verified = with_token(&service, &admin, &["audit", "verify"]).await;
    let line = done(&verified).lines().next().expect("the chain of changes").to_owned();
    assert!(line.starts_with("changes: records 1 to 3 are intact, complete since its"), "{line}");
    assert!(line.contains("; changes:3:") && verified.stderr.is_empty(), "{verified}");
    let seen = line.rsplit(' ').next().expect("the last record").to_owned();
    done(&with_token(&service, &admin, &["namespace", "put", "d"]).await);
    let expect = ["audit", "verify", "--expect", &seen];
    assert!(
        done(&with_token(&service, &admin, &expect).await).starts_with("changes: records 1 to 4")
    );
    let other = format!("3:{}", "0".repeat(64));
    let broken = with_token(&service, &admin, &["audit", "verify", "--expect", &other]).await;
    assert_eq!(broken.code, Some(125));
    assert!(broken.stderr.contains("changes: record 3 is not the one"), "{}", broken.stderr);
    let rest = with_token(&service, &admin, &["audit", "list", "--chain", "rest"]).await;
    assert_eq!((done(&rest), rest.stderr.as_str()), ("", "no records\n"), "{rest}");
}

#[tokio::test]
async fn join_tokens_are_created_listed_and_revoked_over_tls() {
    let service =
        Service::start_with(|settings| Settings { auth: Auth::Required, ..settings }).await;
    let data = service.folder().join("data");
    let admin = std::fs::read_to_string(data.join("admin.token")).expect("the first token");
    let (url, ca) = (service.url().replace("http://", "https://"), data.join("ca.crt"));
    let run = async |arguments: &[&str]| {
        let place = ["--url", &url, "--ca", ca.to_str().expect("UTF-8")];
        with_token(&service, admin.trim(), &[arguments, &place].concat()).await
    };
    let create =
        ["node", "token", "--ttl", "2h", "--uses", "3", "-l", "zone=a", "--max-cpu", "500m"];
    let created = run(&create).await;
    let token = done(&created).to_owned();
    assert!(token.starts_with("jn1.") && !token.contains(char::is_whitespace), "{token}");
    let listed = run(&["node", "token", "list"]).await;
    let row = done(&listed).lines().nth(1).expect("a row");
    let id = token.split('.').nth(1).expect("an ID");
    assert!(row.contains(id) && row.contains("zone=a") && row.contains(" 3 "), "{row}");
    assert!(!listed.stdout.contains(&token), "{listed}");
    let revoked = run(&["node", "token", "revoke", id]).await;
    assert_eq!(done(&revoked), format!("join token {id} is revoked"));

    // The digest in the token is what clients pin.
    let pin = format!("sha256:{}", token.rsplit('.').next().expect("a digest"));
    let pinned = ["whoami", "--url", &url, "--ca", &pin];
    let known = with_token(&service, admin.trim(), &pinned).await;
    assert_eq!(done(&known), "admin (admin of all namespaces)");
    let wrong = ["whoami", "--url", &url, "--ca", &format!("sha256:{}", "0".repeat(64))];
    let refused = with_token(&service, admin.trim(), &wrong).await;
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("is not trusted"), "{}", refused.stderr);

    let usage = run(&["node", "token", "-l", "zone"]).await;
    assert!(usage.stderr.contains("'zone' is not a label"), "{}", usage.stderr);
}
