//! Which field of a task an error of its engine is about.

use std::cmp::Reverse;

use api_types::engine::DockerParams;
use api_types::protocol::Work;

/// A shorter text is found in errors that have nothing to do with it.
const LEAST_CHARS: usize = 2;

/// The field whose value the error quotes, with the value. An engine words its errors as it likes,
/// but it quotes what it cannot work with; of several quoted values the longest is meant.
pub(crate) fn field_of(work: &Work, error: &str) -> Option<String> {
    let task = &work.task;
    let params: Option<DockerParams> =
        serde_json::from_value(task.engine.params.clone().into()).ok();
    let of_engine = params.iter().flat_map(|params| {
        let words = params.entrypoint.iter().map(|word| ("Entrypoint", word));
        words
            .chain([("WorkingDirectory", &params.working_directory)])
            .chain(params.parameters.first().map(|word| ("Parameters", word)))
            .chain([("Image", &params.image)])
    });
    let inputs = task.input_sources.iter().map(|input| ("the Target of an input", &input.target));
    let secrets = task.secrets.iter().map(|secret| ("the Path of a secret", &secret.path));
    let results = task.result_paths.iter().map(|path| ("the Path of a result", &path.path));
    of_engine
        .chain(inputs)
        .chain(secrets)
        .chain(results)
        .map(|(field, value)| (field, value.trim_end_matches('/')))
        .filter(|(_, value)| value.chars().count() >= LEAST_CHARS && error.contains(value))
        // Of two that are equally long, the first: what a task runs comes before what it reads.
        .min_by_key(|(_, value)| Reverse(value.len()))
        .map(|(field, value)| format!("{field} ('{value}')"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_types::engine::EngineType;
    use api_types::job::Task;
    use api_types::source::ResultPath;
    use serde_json::json;

    #[test]
    fn the_field_that_an_error_quotes_is_named() {
        let mut work = crate::testing::plain_work();
        work.task = Task::new("main", EngineType::Docker);
        work.task.engine.params = serde_json::from_value(json!({
            "Image": "app:1",
            "Entrypoint": ["/bin/tool"],
            "Parameters": ["/data/x"],
            "WorkingDirectory": "/etc/passwd",
        }))
        .unwrap();
        let result = ResultPath { name: "out".to_owned(), path: "/etc/passwd/out/".to_owned() };
        work.task.result_paths.push(result);
        for (error, field) in [
            (
                "Cannot mkdir: /etc/passwd is not a directory",
                Some("WorkingDirectory ('/etc/passwd')"),
            ),
            (
                "exec: \"/bin/tool\": stat /bin/tool: no such file or directory",
                Some("Entrypoint ('/bin/tool')"),
            ),
            (
                "lstat /var/lib/x/merged/etc/passwd/out: not a directory",
                Some("the Path of a result ('/etc/passwd/out')"),
            ),
            ("no space left on device", None),
        ] {
            assert_eq!(field_of(&work, error).as_deref(), field, "{error}");
        }
    }
}
