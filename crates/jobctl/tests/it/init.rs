//! `jobctl init`.

use insta::assert_snapshot;

use crate::service::Service;

const TYPES: [&str; 4] = ["batch", "ops", "service", "daemon"];

/// A file without the marks of optional fields; remarks stay.
fn with_every_field(file: &str) -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(field) if !field.starts_with(' ') || field.starts_with("  ") => field.to_owned(),
        _ => line.to_owned(),
    };
    file.lines().map(|it| line(it) + "\n").collect()
}

#[tokio::test]
async fn every_example_can_be_submitted_as_it_is_and_with_all_that_it_shows() {
    let service = Service::start().await;
    for job_type in TYPES {
        for engine in ["docker", "wasm"] {
            let arguments = ["init", "-", "--type", job_type, "--engine", engine];
            let example = service.run(&arguments).await;
            assert_eq!((example.code, example.stderr.as_str()), (Some(0), ""), "{example}");
            for file in [example.stdout.clone(), with_every_field(&example.stdout)] {
                let submitted = service.run_with_input(&["submit", "-"], &file).await;
                assert_eq!(submitted.code, Some(0), "{file}{submitted}");
                assert_eq!(submitted.stderr, "", "{file}{submitted}");
                let job = service.client.describe_job(submitted.stdout.trim()).await.unwrap();
                assert_eq!(job.spec.job_type.as_str(), job_type);
                assert_eq!(job.spec.tasks[0].engine.engine_type.as_str(), engine);
            }
            let with_all = with_every_field(&example.stdout);
            assert!(with_all.contains("\nPriority: 50\n") && with_all.contains("\n  Publisher: "));
        }
    }
}

#[tokio::test]
async fn an_example_is_written_to_a_file_and_replaces_none() {
    let service = Service::start().await;
    assert_snapshot!("written", service.run(&["init"]).await.normal());
    let submitted = service.run(&["submit", "job.yaml"]).await;
    assert_eq!(submitted.code, Some(0), "{submitted}");
    service.write("job.yaml", "mine");
    assert_snapshot!("exists", service.run(&["job", "init"]).await.normal());
    assert_eq!(service.read("job.yaml"), "mine");
    assert_eq!(service.run(&["init", "--force"]).await.code, Some(0));
    assert!(service.read("job.yaml").contains("Type: batch"));
    assert_eq!(service.run(&["init", "job.json", "--type", "ops"]).await.code, Some(0));
    let submitted = service.run(&["submit", "job.json"]).await;
    assert_eq!(submitted.code, Some(0), "{submitted}");
    assert_eq!(service.run(&["init", "absent/job.yaml"]).await.code, Some(120));
}

#[tokio::test]
async fn an_example_explains_itself() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["init", "-"]).await.stdout);
}
