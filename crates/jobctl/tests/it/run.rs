//! `jobctl run`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;

use crate::fake_node::FakeNode;
use crate::service::{Service, TIMEOUT};
use crate::terminal::Terminal;

#[tokio::test]
async fn the_program_shows_the_output_of_the_task() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let ran = service.run(&["run", "--quiet", "--cpu", "1", "ok", "--", "greet"]).await;
    assert_snapshot!(ran.normal());
    let job = service.only_job().await;
    assert_eq!(job.spec.tasks[0].resources.cpu, "1");
    assert_eq!(job.spec.tasks[0].engine.params["Parameters"], serde_json::json!(["greet"]));
}

#[tokio::test]
async fn the_program_returns_the_exit_code_of_the_task() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    assert_snapshot!(service.run(&["run", "-q", "--name", "test", "exit-3"]).await.normal());
}

#[tokio::test]
async fn lines_of_several_executions_have_a_prefix() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let ran = service.run(&["run", "--count", "2", "--name", "two", "ok"]).await;
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran}");
    assert!(lines.iter().all(|line| line.ends_with("] | hello")), "{ran}");
    assert!(ran.stderr.contains("Completed: all 2 executions completed"), "{ran}");
}

#[tokio::test]
async fn a_followed_run_shows_output_while_the_task_runs() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let arguments = ["run", "--follow", "-q", "forever"];
    let mut child = service.spawn(&arguments);
    let mut shown = [0; 5];
    let stdout = child.stdout.as_mut().unwrap();
    tokio::time::timeout(TIMEOUT, stdout.read_exact(&mut shown)).await.unwrap().unwrap();
    assert_eq!(&shown, b"tick\n");
    let job = service.only_job().await;
    service.until(&job.id.to_string(), JobStateType::Running).await;
    service.client.stop_job(job.id, "enough").await.unwrap();
    let ran = service.finish(child, &arguments).await;
    // The line that was read above is not repeated at the end.
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(123), ""), "{ran}");

    let ran = service.run(&["run", "-f", "-q", "exit-4"]).await;
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(ran.stderr.starts_with("it did not work\njobctl: "), "{ran}");
}

#[tokio::test]
async fn a_detached_run_prints_the_id_and_exits() {
    let service = Service::start().await;
    let ran = service.run(&["run", "--detach", "ok"]).await;
    assert_snapshot!(ran.normal());
    assert_eq!(ran.stdout.trim(), service.only_job().await.id.to_string());
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let service = Service::start().await;
    let _node = FakeNode::idle(&service, 1).await;
    let ran = service.run(&["run", "--dry-run", "--constraint", "zone=b", "ok"]).await;
    assert_snapshot!(ran.normal());
    assert!(service.client.list_jobs(&Default::default()).await.unwrap().jobs.is_empty());
}

#[tokio::test]
async fn an_interrupted_run_leaves_the_job_running_and_tells_how_to_return() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let arguments = ["run", "--quiet", "forever"];
    let child = service.spawn(&arguments);
    let job = service.only_job().await;
    service.until(&job.id.to_string(), JobStateType::Running).await;
    interrupt(&child);
    let ran = service.finish(child, &arguments).await;
    assert_snapshot!(ran.normal());
    service.until(&job.id.to_string(), JobStateType::Running).await;
}

#[tokio::test]
async fn a_user_at_a_terminal_is_asked_whether_to_stop_the_job() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let arguments = ["run", "forever"];
    let mut command = service.command(&arguments);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::attach(&mut command);
    let child = command.spawn().unwrap();
    drop(command);
    let job = service.only_job().await.id.to_string();
    // The screen shows the progress.
    terminal.until("Running").await;
    interrupt(&child);
    terminal.until(&format!("stop job {job}? [y/N]")).await;
    terminal.types("y\n");
    let ran = service.finish(child, &arguments).await;
    assert_eq!(ran.code, Some(123), "{ran}");
    service.until(&job, JobStateType::Stopped).await;
    let history = service.run(&["history", &job, "--type", "job"]).await;
    assert!(history.stdout.contains("interrupted at the terminal"), "{history}");
}

#[tokio::test]
async fn a_user_who_declines_to_stop_is_told_how_to_return() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let arguments = ["run", "forever"];
    for answer in ["\n", "again"] {
        let mut command = service.command(&arguments);
        command.env("TERM", "xterm");
        let mut terminal = Terminal::attach(&mut command);
        let child = command.spawn().unwrap();
        drop(command);
        terminal.until("Running").await;
        interrupt(&child);
        terminal.until("[y/N]").await;
        if answer == "again" {
            interrupt(&child)
        } else {
            terminal.types(answer)
        }
        terminal.until("the job continues; return to it with 'jobctl logs -f j-").await;
        let ran = service.finish(child, &arguments).await;
        assert_eq!(ran.code, Some(130), "{ran}");
    }
}

#[tokio::test]
async fn a_timed_out_run_leaves_the_job_running() {
    let service = Service::start().await;
    let ran = service.run(&["run", "-q", "--wait-timeout", "1s", "ok"]).await;
    assert_snapshot!(ran.normal());
}

#[tokio::test]
async fn local_files_and_directories_are_sent_with_the_job() {
    let service = Service::start().await;
    service.write("config.yaml", "a: 1");
    std::fs::create_dir_all(service.folder().join("project/src")).unwrap();
    service.write("project/src/main.c", "int main;");
    std::os::unix::fs::symlink("/etc", service.folder().join("project/etc")).unwrap();
    let inputs = ["-i", "@config.yaml", "-i", "@project:/src"];
    let ran = service.run(&[&["run", "--detach"], &inputs[..], &["ok"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(ran.stderr, "left out of project: etc (a link that leads out, to /etc)\n");
    let job = service.only_job().await;
    let placed: Vec<_> = job.spec.tasks[0]
        .input_sources
        .iter()
        .map(|input| (input.target.as_str(), input.alias.as_str()))
        .collect();
    assert_eq!(placed, [("/inputs/", "config.yaml"), ("/src", "")]);

    // Both would be at /inputs.
    let ran = service.run(&["run", "-d", "-i", "@config.yaml", "-i", "@project", "ok"]).await;
    assert_eq!(ran.code, Some(122), "{ran}");
    assert!(ran.stderr.contains("a directory shares its target with no other input"), "{ran}");

    let file = std::fs::File::create(service.folder().join("large")).unwrap();
    file.set_len(8_000_000).unwrap();
    assert_snapshot!(service.run(&["run", "-d", "-i", "@large", "ok"]).await.normal());
}

#[tokio::test]
async fn an_argument_without_effect_is_refused() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["run", "-o", "json", "ok"]).await.normal());
}

fn interrupt(child: &tokio::process::Child) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs");
    let pid = Pid::from_raw(id).expect("a process ID");
    kill_process(pid, Signal::INT).expect("send SIGINT");
}
