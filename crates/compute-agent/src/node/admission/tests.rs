//! Declined offers and their reasons.

use std::sync::Arc;

use api_types::secret::TaskSecret;
use api_types::source::{ResultPath, SourceSpec, SourceType};
use serde_json::json;

use super::*;
use crate::host::settings::Settings;
use crate::runtime::Executor;
use crate::runtime::noop::Noop;
use crate::testing::{plain_work, without_secrets};

fn decide(change: impl FnOnce(&mut Work)) -> Result<(), String> {
    let settings = Settings { engines: vec![EngineType::Noop], ..Settings::default() };
    let engines: Arc<Engines> =
        Engines::new([(EngineType::Noop, Box::new(Noop::default()) as Box<dyn Executor>)]);
    let capacity = Resources { cpu_millis: 1000, memory_bytes: 1_000_000_000, ..Resources::ZERO };
    let sources = Sources::new(&settings, "cache".into());
    let publishers = Publishers::new(&settings, "published".into(), settings.listen);
    let admission = Admission {
        engines: &engines,
        sources: &sources,
        publishers: &publishers,
        secrets: &without_secrets(),
        capacity,
    };
    let mut work = plain_work();
    change(&mut work);
    let available = engines.available().borrow().clone();
    admission.decide(&work, &available)
}

fn input(target: &str) -> InputSource {
    let params = serde_json::from_value(json!({"URL": "data:,x"})).unwrap();
    let source = SourceSpec { source_type: SourceType::Inline, params };
    InputSource { source, target: target.to_owned(), alias: String::new() }
}

fn result(name: &str, path: &str) -> ResultPath {
    ResultPath { name: name.to_owned(), path: path.to_owned() }
}

#[test]
fn a_supported_task_is_accepted() {
    decide(|_| ()).unwrap();
    decide(|work| {
        work.task.input_sources = vec![input("/inputs/a"), input("/inputs/b/")];
        work.task.result_paths = vec![result("a", "/out/a"), result("b", "/out/b/")];
        work.resources.cpu = 1.0;
    })
    .unwrap();
}

#[test]
fn a_task_beyond_the_nodes_capacity_is_declined() {
    let reason = decide(|work| work.resources.cpu = 1.5).unwrap_err();
    assert_eq!(
        reason,
        "the task needs 1.5 CPU, 64 MB of memory; this node has 1 CPU, 1 GB of memory in all"
    );
}

#[test]
fn a_path_inside_the_task_must_be_plain_and_absolute() {
    for path in ["", "/", "inputs", "/a/../b", "/a/./b", "/a//b", "//", "/a\0b"] {
        let as_target = decide(|work| work.task.input_sources = vec![input(path)]).unwrap_err();
        assert!(as_target.contains("is not an absolute path"), "{path}: {as_target}");
        let as_result = decide(|work| work.task.result_paths = vec![result("a", path)]);
        assert!(as_result.unwrap_err().contains("is not an absolute path"), "{path}");
    }
}

#[test]
fn the_name_of_a_result_is_a_plain_directory_name() {
    for name in ["", ".", "..", ".hidden", "a/b", "/a", "a\0"] {
        let refused = decide(|work| work.task.result_paths = vec![result(name, "/out")]);
        assert!(refused.unwrap_err().contains("plain directory name"), "{name}");
    }
    let twice = vec![result("a", "/x"), result("a", "/y")];
    let refused = decide(|work| work.task.result_paths = twice).unwrap_err();
    assert_eq!(refused, "result path 'a': another result path has this Name");
}

#[test]
fn two_inputs_cannot_share_a_target() {
    for second in ["/inputs", "/inputs/"] {
        let twice = vec![input("/inputs"), input(second)];
        let refused = decide(|work| work.task.input_sources = twice).unwrap_err();
        assert_eq!(refused, "input 1 (inline): its Target '/inputs' is also the Target of input 0");
    }
    // Files in one directory: whether their names differ is known once they are fetched.
    let both = vec![input("/inputs/"), input("/inputs/")];
    decide(|work| work.task.input_sources = both).unwrap();
}

#[test]
fn a_task_with_secrets_is_declined_where_there_is_no_place_for_them() {
    let secret = TaskSecret {
        name: "db".to_owned(),
        path: "/run/secrets/db".to_owned(),
        env: String::new(),
    };
    let reason = decide(|work| work.task.secrets = vec![secret]).unwrap_err();
    assert!(reason.contains("no directory in memory"), "{reason}");
}
