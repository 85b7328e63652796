//! Names in place of IDs.

use api_types::job::JobStateType;

use crate::fake_node::FakeNode;
use crate::service::Service;

fn job(fields: &str, image: &str) -> String {
    format!(
        "Type: batch\n{fields}\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: {image}}}}}}}]"
    )
}

#[tokio::test]
async fn a_name_means_the_one_live_job_and_else_the_newest() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let none = service.run(&["describe", "train"]).await;
    assert_eq!(none.code, Some(122));
    assert!(none.stderr.contains("no job has the name 'train' in the namespace default"), "{none}");
    assert!(none.stderr.contains("hint: 'jobctl list -A'"), "{none}");

    let first = service.submit(&job("Name: train", "ok")).await;
    service.until(&first, JobStateType::Completed).await;
    let newest = service.submit(&job("Name: train", "exit-3")).await;
    service.until(&newest, JobStateType::Failed).await;
    let found = service.run(&["describe", "train", "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{newest}\n"));

    let live = service.submit(&job("Name: train", "forever")).await;
    service.until(&live, JobStateType::Running).await;
    let ended = service.submit(&job("Name: train", "ok")).await;
    service.until(&ended, JobStateType::Completed).await;
    let found = service.run(&["describe", "train", "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{live}\n"));

    let second = service.submit(&job("Name: train", "forever")).await;
    service.until(&second, JobStateType::Running).await;
    let two = service.run(&["stop", "train"]).await;
    assert_eq!(two.code, Some(122));
    assert!(two.stderr.contains("several live jobs have the name 'train'"), "{two}");
    for id in [&live, &second] {
        let line = format!("  - {}  default/train  Running, created", &id[..10]);
        assert!(two.stderr.contains(&line), "{two}");
    }
    assert!(!two.stderr.contains(&ended[..10]), "{two}");
    // The command that acts says on which.
    service.run(&["stop", &second]).await;
    let stopped = service.run(&["stop", "train"]).await;
    assert_eq!(stopped.stdout, format!("{live} is stopped\n"), "{stopped}");
}

#[tokio::test]
async fn every_command_takes_a_name() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("Name: words\nCount: 2", "ok")).await;
    service.until(&id, JobStateType::Completed).await;
    for (arguments, text) in [
        (&["describe", "words"][..], id.as_str()),
        (&["describe", "words[1]"], "words[1]"),
        (&["describe", "words", "--index", "1"], "words[1]"),
        (&["executions", "words"], "words[0]"),
        (&["history", "words"], "[0]"),
        (&["history", "words[1]"], "[1]"),
        (&["logs", "words"], "hello"),
        (&["logs", "words[0]"], "hello\n"),
        (&["logs", "--index", "0", &id[..10]], "hello\n"),
        (&["explain", "words"], "The job has ended."),
        (&["wait", "words"], "Completed"),
        (&["stop", "words"], id.as_str()),
        (&["events", "--job", "words"], "submitted"),
        (&["top", "--once", "--job", "words"], ""),
    ] {
        let run = service.run(arguments).await;
        let shown = format!("{}{}", run.stdout, run.stderr);
        assert!(shown.contains(text), "{run}");
        assert!(run.code == Some(0) || arguments[0] == "stop", "{run}");
    }
    let one = service.run(&["history", "words[1]"]).await;
    assert!(!one.stdout.contains("[0]"), "{one}");
    let executions = service.run(&["executions", "words", "-o", "name"]).await;
    let execution = executions.stdout.lines().next().unwrap();
    let logs = service.run(&["logs", &execution[..10]]).await;
    assert_eq!(logs.stdout, "hello\n", "{logs}");
    let missing = service.run(&["logs", "words[7]"]).await;
    assert!(missing.stderr.contains("job 'words' has no execution with the index 7"), "{missing}");
    let whole = service.run(&["stop", execution]).await;
    assert!(whole.stderr.contains("is an execution"), "{whole}");
}

#[tokio::test]
async fn a_name_belongs_to_the_namespace_of_the_command() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let here = service.submit(&job("Name: train", "ok")).await;
    service.until(&here, JobStateType::Completed).await;
    let lab = service.submit(&job("Name: train\nNamespace: lab", "forever")).await;
    service.until(&lab, JobStateType::Running).await;
    let only = service.submit(&job("Name: only\nNamespace: lab", "ok")).await;
    let found = async |arguments: &[&str]| {
        service.run(&[&["describe", "-o", "name"], arguments].concat()).await.stdout
    };
    assert_eq!(found(&["train"]).await, format!("{here}\n"));
    assert_eq!(found(&["train", "-n", "lab"]).await, format!("{lab}\n"));
    assert_eq!(found(&["lab/train"]).await, format!("{lab}\n"));
    assert_eq!(found(&["only", "-n", "*"]).await, format!("{only}\n"));
    // An ID needs no namespace.
    assert_eq!(found(&[&lab[..10]]).await, format!("{lab}\n"));
    let several = service.run(&["describe", "train", "-n", "*"]).await;
    assert_eq!(several.code, Some(122));
    for line in ["several namespaces have", "default/train", "lab/train"] {
        assert!(several.stderr.contains(line), "{several}");
    }
    let elsewhere = service.run(&["describe", "only"]).await;
    assert!(elsewhere.stderr.contains("in the namespace default"), "{elsewhere}");
}

#[tokio::test]
async fn what_looks_like_an_id_is_one_first() {
    let service = Service::start().await;
    let first = service.submit(&job("Name: first", "ok")).await;
    let short = &first[..10];
    let other = service.submit(&job(&format!("Name: {short}"), "ok")).await;
    let found = service.run(&["describe", short, "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{first}\n"));
    // No job has this ID, and one has it as its name.
    let named = service.submit(&job("Name: j-00000000", "ok")).await;
    let found = service.run(&["describe", "j-00000000", "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{named}\n"));
    let brackets = service.submit(&job("Name: 'a[3]'", "ok")).await;
    let found = service.run(&["describe", "a[3]", "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{brackets}\n"));
    // A generated name is one, too.
    let generated = service.submit(&job("", "ok")).await;
    let name = format!("ok-{}", &generated[2..6]);
    let found = service.run(&["describe", &name, "-o", "name"]).await;
    assert_eq!(found.stdout, format!("{generated}\n"));
    assert_ne!(other, first);
}

#[tokio::test]
async fn nodes_have_names_too() {
    let service = Service::start().await;
    let alpha = FakeNode::start(&service, 1).await;
    let (id, short) = (alpha.id.to_string(), alpha.id.short());
    let name = service.client.describe_node(alpha.id).await.unwrap().name;
    assert!(!name.is_empty() && name != short);
    for (arguments, text) in [
        (&["node", "describe", &name][..], id.clone()),
        (&["node", "history", &name], "Connected".to_owned()),
        (&["node", "cordon", &name], format!("{id} is cordoned")),
        (&["node", "uncordon", &name], format!("{id} is uncordoned")),
        (&["executions", "--node", &name], String::new()),
        (&["top", "--once", "--node", &name], String::new()),
    ] {
        let run = service.run(arguments).await;
        assert!(run.code == Some(0) && run.stdout.contains(&text), "{run}");
    }
    let unknown = service.run(&["node", "cordon", "nowhere"]).await;
    assert_eq!(unknown.code, Some(122));
    assert!(unknown.stderr.contains("no node has the name 'nowhere'"), "{unknown}");
}
