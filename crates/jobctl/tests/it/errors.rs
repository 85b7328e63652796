//! Failures, their messages and exit codes.

use insta::assert_snapshot;

use crate::service::{Service, finish, program};
use crate::terminal::Terminal;

#[tokio::test]
async fn an_unreachable_service_is_reported_with_a_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["list", "--url", &url];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", Some(&url)).await;
    assert_snapshot!(ran.normal());
}

/// A URL at which nothing listens.
fn dead_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("its address"))
}

#[tokio::test]
async fn of_several_urls_one_that_answers_is_used() {
    let service = Service::start().await;
    let urls = format!("{},{}", dead_url(), service.url());
    for arguments in [&["list"][..], &["node", "list"], &["events"]] {
        let mut command = service.command(arguments);
        command.env("JOBCTL_URL", &urls);
        let ran = finish(command, arguments, "", None).await;
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    let named = ["cluster", "-o", "name", "--url", &urls];
    let ran = finish(program(service.folder(), &named), &named, "", None).await;
    assert_eq!(ran.stdout.trim(), service.url(), "{ran}");
}

#[tokio::test]
async fn each_url_that_does_not_answer_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (dead_url(), dead_url());
    let arguments = ["list", "--url", &format!("{one},{two}")];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
    assert_eq!(ran.code, Some(121), "{ran}");
    for url in [one, two] {
        let line = ran.stderr.lines().find(|line| line.contains(&url)).expect("its line");
        assert!(line.contains("refused"), "{ran}");
    }
}

#[tokio::test]
async fn urls_of_two_schemes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["list", "--url", "https://a:1,http://b:2"];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
    assert_eq!(ran.code, Some(120), "{ran}");
    assert!(ran.stderr.contains("'http://b…' is not a base URL"), "{ran}");
}

#[tokio::test]
async fn an_invalid_url_is_reported_before_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["list", "--url", "127.0.0.1:1234"];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
    assert_snapshot!(ran.normal());
}

#[tokio::test]
async fn invalid_arguments_have_the_exit_code_of_usage() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["frobnicate"][..], &["wait"], &["wait", "j-1", "--timeout", "soon"], &[]] {
        let ran = finish(program(folder.path(), arguments), arguments, "", None).await;
        assert_eq!(ran.code, Some(120), "{ran}");
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("Usage:") | ran.stderr.contains("--help")
        );
    }
    let help = ["--help"];
    assert_eq!(finish(program(folder.path(), &help), &help, "", None).await.code, Some(0));
}

#[tokio::test]
async fn a_closed_standard_output_is_no_failure() {
    let service = Service::start().await;
    let mut command = service.command(&["man"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let ran = finish(command, &["man"], "", None).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_terminal_gets_colours_unless_no_color_is_set() {
    let service = Service::start().await;
    service
        .submit("Type: batch\nTasks: [{Name: a, Engine: {Type: docker, Params: {Image: ok}}}]")
        .await;
    for (no_color, coloured) in [(None, true), (Some("1"), false)] {
        let mut command = service.command(&["list"]);
        command.env("TERM", "xterm");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let mut terminal = Terminal::of_output(&mut command);
        let child = command.spawn().unwrap();
        drop(command);
        terminal.until("batch").await;
        terminal.until("s\r\n").await;
        assert_eq!(terminal.screen.contains("\x1b[33m"), coloured, "{:?}", terminal.screen);
        service.finish(child, &["list"]).await;
    }
}

#[tokio::test]
async fn nothing_is_coloured_without_a_terminal() {
    let service = Service::start().await;
    let mut command = service.command(&["version"]);
    command.env("TERM", "xterm-256color");
    let ran = finish(command, &["version"], "", None).await;
    assert_eq!(ran.code, Some(0));
    assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'));
}

#[tokio::test]
async fn a_proxy_is_named_and_never_used_for_this_machine() {
    let service = Service::start().await;
    let run = async |arguments: &[&str]| {
        let mut command = service.command(arguments);
        // Nothing listens there.
        command.env("http_proxy", "http://user:secret@127.0.0.1:9");
        finish(command, arguments, "", None).await
    };
    let direct = run(&["list"]).await;
    assert_eq!(direct.code, Some(0), "{direct}");
    let proxied = run(&["list", "--url", "http://192.0.2.1:1234"]).await;
    assert_eq!(proxied.code, Some(121));
    assert!(proxied.stderr.contains("through the proxy http://127.0.0.1:9 of"), "{proxied}");
    assert!(!proxied.stderr.contains("secret"), "{proxied}");
}
