//! What people see in a terminal of 80 columns, next to what a pipe gets.

use std::time::Duration;

use api_types::job::JobStateType;

use crate::fake_node::FakeNode;
use crate::service::{Service, finish};
use crate::terminal::Terminal;

const NAME: &str = "a-name-that-is-much-longer-than-what-fits-into-the-columns-of-a-terminal";

fn job(fields: &str, image: &str) -> String {
    format!(
        "Type: batch\n{fields}\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: {image}}}}}}}]"
    )
}

/// The screen after the program has ended, without colours.
async fn screen(service: &Service, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = service.command(arguments);
    command.env("NO_COLOR", "1");
    Terminal::of_all(&mut command).until_end(command).await
}

#[tokio::test]
async fn tables_fit_a_terminal_and_are_complete_in_a_pipe() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job(&format!("Name: {NAME}"), "exit-3")).await;
    service.until(&id, JobStateType::Failed).await;
    for arguments in [
        &["list"][..],
        &["list", "-A"],
        &["executions", &id],
        &["history", &id],
        &["node", "list"],
        &["events"],
        &["explain", &id],
    ] {
        let (shown, code) = screen(&service, arguments).await;
        assert_eq!(code, Some(0), "{shown}");
        // The message of `explain` is a field, and not a column.
        let table = shown.lines().filter(|line| !line.contains(": "));
        for line in table {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
        assert!(!shown.contains('\x1b'), "{shown}");
    }
    let (shown, _) = screen(&service, &["list"]).await;
    assert!(shown.contains("a-name-that") && shown.contains('…'), "{shown}");
    for arguments in [&["list"][..], &["list", "-o", "wide"]] {
        assert!(service.run(arguments).await.stdout.contains(NAME), "{arguments:?}");
    }
    let (wide, _) = screen(&service, &["list", "-o", "wide"]).await;
    assert!(wide.contains(NAME), "{wide}");
}

#[tokio::test]
async fn an_empty_list_says_so_on_standard_error() {
    let service = Service::start().await;
    for (arguments, said) in [
        (&["list"][..], "no jobs\n"),
        (&["executions", "--live"], "no executions\n"),
        (&["list", "-o", "name"], "no jobs\n"),
        (&["list", "-o", "json"], ""),
        (&["secret", "list"], "no secrets\n"),
    ] {
        let run = service.run(arguments).await;
        let stdout = if arguments.contains(&"json") { "[]\n" } else { "" };
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), (stdout, said), "{run}");
    }
}

#[tokio::test]
async fn people_see_local_times_and_programs_those_of_the_api() {
    let service = Service::start().await;
    let id = service.submit(&job("Name: words", "ok")).await;
    let run = async |arguments: &[&str]| {
        let mut command = service.command(arguments);
        // Five and a half hours ahead, without a file that says so.
        command.env("TZ", "<+0530>-5:30");
        finish(command, arguments, "", None).await.stdout
    };
    assert!(run(&["describe", &id]).await.contains(" +05:30 ("));
    assert!(run(&["history", &id]).await.starts_with("TIME+05:30  STEP"));
    assert!(run(&["history", &id, "-o", "wide"]).await.contains("+05:30  "));
    let json = run(&["history", &id, "-o", "json"]).await;
    assert!(json.contains("Z\"") && !json.contains("05:30"), "{json}");
}

#[tokio::test]
async fn jobs_are_stopped_by_a_selector_after_a_preview() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let mut ids = Vec::new();
    for labels in ["Labels: {team: a}", "Labels: {team: a}", "Labels: {team: b}"] {
        let id = service.submit(&job(labels, "forever")).await;
        service.until(&id, JobStateType::Running).await;
        ids.push(id);
    }
    let piped = service.run(&["stop", "-l", "team=a"]).await;
    assert_eq!(piped.code, Some(120), "{piped}");
    assert!(piped.stdout.is_empty() && piped.stderr.contains("hint: --yes"), "{piped}");
    assert!(piped.stderr.contains(&ids[0][..10]) && !piped.stderr.contains(&ids[2][..10]));

    let stop = ["stop", "-l", "team=a"];
    let mut command = service.command(&stop);
    let mut terminal = Terminal::of_all(&mut command);
    let mut child = command.spawn().unwrap();
    terminal.until("Stop these 2 jobs? [y/N]").await;
    terminal.types("n\n");
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    assert_eq!(service.until(&ids[0], JobStateType::Running).await.id.to_string(), ids[0]);

    let agreed = service.run(&["stop", "-l", "team=a", "--yes"]).await;
    assert_eq!(agreed.code, Some(0), "{agreed}");
    assert_eq!(agreed.stdout.lines().count(), 2, "{agreed}");
    service.until(&ids[1], JobStateType::Stopped).await;
    service.until(&ids[2], JobStateType::Running).await;
    let none = service.run(&["stop", "-l", "team=a", "--yes"]).await;
    assert_eq!((none.code, none.stderr.as_str()), (Some(0), "no live jobs match\n"));
}

#[tokio::test]
async fn a_drain_says_first_what_moves() {
    let service = Service::start().await;
    let node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("Name: train\nCount: 2", "forever")).await;
    service.until(&id, JobStateType::Running).await;
    let id = node.id.to_string();
    let piped = service.run(&["node", "drain", "-l", "zone=a"]).await;
    assert_eq!(piped.code, Some(120), "{piped}");
    let drained = service.run(&["node", "drain", "alpha"]).await;
    assert_eq!(drained.stdout, format!("{id} is draining\n"), "{drained}");
    assert!(drained.stderr.starts_with("alpha: 2 executions leave it: train["), "{drained}");
    service.run(&["node", "uncordon", "alpha"]).await;
    let selected = service.run(&["node", "drain", "-l", "zone=a", "--yes"]).await;
    assert_eq!(selected.stdout, format!("{id} is draining\n"), "{selected}");
}

#[tokio::test]
async fn the_output_of_selected_jobs_begins_with_the_job() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    for name in ["one", "two"] {
        let id = service.submit(&job(&format!("Name: {name}\nLabels: {{t: x}}"), "ok")).await;
        service.until(&id, JobStateType::Completed).await;
    }
    let logs = service.run(&["logs", "-l", "t=x"]).await;
    let lines: Vec<_> = logs.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("one ") && lines[1].starts_with("two "));
    assert!(lines.iter().all(|line| line.ends_with(" | hello")), "{logs}");
    assert_eq!(logs.stderr, "output of one, two\n");
}

#[tokio::test]
async fn a_task_colours_the_terminal_and_controls_nothing_else() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("", "colours")).await;
    service.until(&id, JobStateType::Completed).await;
    let mut command = service.command(&["logs", &id]);
    let (shown, _) = Terminal::of_all(&mut command).until_end(command).await;
    assert_eq!(shown, "\x1b[31mred\x1b[0m plain\n");
    let (plain, _) = screen(&service, &["logs", &id]).await;
    assert_eq!(plain, "red plain\n");
    // A pipe gets what the task wrote, and so does who asks for it.
    let piped = service.run(&["logs", &id]).await;
    assert!(piped.stdout.contains("]52;c;"), "{piped}");
    let (raw, _) = screen(&service, &["logs", "--raw", &id]).await;
    assert!(raw.contains("]52;c;"), "{raw}");
}

#[tokio::test]
async fn a_run_follows_the_output_on_a_terminal_and_returns_the_exit_code_of_the_task() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let mut command = service.command(&["run", "--quiet", "forever"]);
    let mut terminal = Terminal::of_all(&mut command);
    let mut child = command.spawn().unwrap();
    drop(command);
    // The task is still running.
    terminal.until("tick").await;
    let job = service.only_job().await;
    service.until(&job.id.to_string(), JobStateType::Running).await;
    service.client.stop_job(job.id, "enough").await.unwrap();
    let status = tokio::time::timeout(crate::service::TIMEOUT, child.wait()).await;
    assert_eq!(status.expect("it ends").unwrap().code(), Some(123));

    // What was followed is not shown again at the end.
    assert_eq!(screen(&service, &["run", "-q", "ok"]).await, ("hello\n".to_owned(), Some(0)));
    let (shown, code) = screen(&service, &["run", "-q", "exit-4"]).await;
    assert!(shown.starts_with("it did not work\njobctl: "), "{shown}");
    assert_eq!((shown.matches("it did not work").count(), code), (1, Some(4)));
    let (shown, code) = screen(&service, &["run", "-d", "ok"]).await;
    assert!(shown.starts_with("j-") && code == Some(0), "{shown}");
}

#[tokio::test]
async fn top_leaves_the_terminal_as_it_was() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let mut command = service.command(&["top"]);
    let mut terminal = Terminal::of_all(&mut command);
    let mut child = command.spawn().unwrap();
    terminal.until("running executions, by cpu").await;
    let entered = terminal.screen.find("\x1b[?1049h").expect("the alternate screen");
    assert!(!terminal.screen.contains("\x1b[3J"), "the scrollback is kept");
    terminal.types("xq");
    terminal.until("\x1b[?25h\x1b[?1049l").await;
    assert!(terminal.screen.find("\x1b[?1049l").unwrap() > entered);
    let status = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    assert_eq!(status.expect("it ends").unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_failure_is_said_once() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    for arguments in [&["run", "--name", "x", "exit-3"][..], &["wait", "x"]] {
        let run = service.run(arguments).await;
        assert_eq!(run.code, Some(3), "{run}");
        assert_eq!(run.stderr.matches("exit code 3").count(), 1, "{run}");
    }
}

#[tokio::test]
async fn habits_of_docker_get_an_answer() {
    let service = Service::start().await;
    for (arguments, text) in [
        (&["ps"][..], "'jobctl list' shows jobs"),
        (&["exec", "x", "sh"], "nothing can be run inside a task"),
        (&["run", "-it", "ok"], "a terminal shows the output"),
        (&["run", "--rm", "ok"], "the node removes the container"),
        (&["run", "-v", "/data:/data", "ok"], "--result NAME:/PATH"),
        (&["run", "-d", "-e", "NOT_SET", "ok"], "NOT_SET is not set here"),
    ] {
        let run = service.run(arguments).await;
        assert_eq!(run.code, Some(120), "{run}");
        assert!(run.stderr.contains(text), "{run}");
    }
    let run = ["run", "--detach", "-e", "COLOUR", "-e", "SIZE=1", "ok"];
    let mut command = service.command(&run);
    command.env("COLOUR", "red");
    let id = finish(command, &run, "", None).await.stdout;
    let env = service.client.describe_job(id.trim()).await.unwrap().spec.tasks[0].env.clone();
    assert_eq!(
        env.into_iter().collect::<Vec<_>>(),
        [("COLOUR".to_owned(), "red".to_owned()), ("SIZE".to_owned(), "1".to_owned())]
    );
}

#[tokio::test]
async fn the_page_of_a_job_has_an_address() {
    let service = Service::start().await;
    let id = service.submit(&job("Name: words", "ok")).await;
    let opened = service.run(&["open", "words"]).await;
    assert_eq!(opened.stdout, format!("{}/jobs/{id}\n", service.url()));
    let overview = service.run(&["open"]).await;
    assert_eq!(overview.stdout, format!("{}/\n", service.url()));
}

#[tokio::test]
async fn a_description_shows_a_hundred_executions_and_counts_the_rest() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("Name: many\nCount: 103", "ok")).await;
    service.until(&id, JobStateType::Completed).await;
    let described = service.run(&["describe", "many"]).await;
    assert_eq!(described.stdout.matches("  many[").count(), 100, "{described}");
    let more = format!("… and 3 more: 'jobctl executions {}' shows all", &id[..10]);
    assert!(described.stdout.contains(&more), "{described}");
}
