//! Tasks that are refused.

use serde_json::{Value, json};

use super::{accept_job, merged, problems, task};

#[test]
fn fields_of_a_task_are_checked() {
    let s3 = json!({ "Type": "s3", "Params": { "Bucket": "b" } });
    for (fields, problem) in [
        (json!({ "Name": "" }), "Tasks[0].Name: is required"),
        (json!({ "Engine": {} }), "Tasks[0].Engine.Type: is required; known: docker, wasm, noop"),
        (json!({ "Publisher": s3 }), "Tasks[0].Publisher.Params.Key: is required"),
        (
            json!({ "Publisher": { "Type": "ftp" } }),
            "Tasks[0].Publisher.Type: 'ftp' is not a publisher; known: (empty), noop, local, s3, ipfs",
        ),
        (
            json!({ "Env": { "A=B": "c" } }),
            "Tasks[0].Env.A=B: a variable's name must not contain '='",
        ),
        (
            json!({ "InputSources": [{ "Source": { "Type": "inline", "Params": { "URL": "data:,x" } } }] }),
            "Tasks[0].InputSources[0].Target: is required: the absolute path at which the task sees it",
        ),
        (
            json!({ "ResultPaths": [{ "Name": "../x", "Path": "/outputs" }] }),
            "Tasks[0].ResultPaths[0].Name: must be the name of one directory, without '/'",
        ),
        (
            json!({ "ResultPaths": [{ "Name": "stdout", "Path": "/outputs" }] }),
            "Tasks[0].ResultPaths[0].Name: 'stdout' is reserved in the archive",
        ),
        (
            json!({ "ResultPaths": [{ "Name": "a", "Path": "/a" }, { "Name": "a", "Path": "/b" }] }),
            "Tasks[0].ResultPaths[1].Name: 'a' is the name of another result path",
        ),
        (
            json!({ "ResultPaths": [{ "Name": "a", "Path": "outputs" }] }),
            "Tasks[0].ResultPaths[0].Path: must be an absolute path, got 'outputs'",
        ),
        (
            json!({ "ResultPaths": [{ "Name": "a", "Path": "/a/../b" }] }),
            "Tasks[0].ResultPaths[0].Path: must not contain '..'",
        ),
        (
            json!({ "Resources": { "CPU": "0" } }),
            "Tasks[0].Resources.CPU: must be more than zero; leave it out for the default",
        ),
        (
            json!({ "Resources": { "CPU": "1" }, "ResourcesConfig": { "CPU": "2" } }),
            "Tasks[0].ResourcesConfig: differs from Resources; give one of them, or the same in both",
        ),
        (
            json!({ "ResourcesConfig": { "GPU": "0.5" } }),
            "Tasks[0].ResourcesConfig.GPU: '0.5' is not a whole number of GPUs",
        ),
        (
            json!({ "Timeouts": { "QueueTimeout": 1.5 } }),
            "Tasks[0].Timeouts.QueueTimeout: expected a 64-bit integer, got the number 1.5",
        ),
    ] {
        assert_eq!(problems(&task(fields)), [problem]);
    }
    let same = json!({ "Resources": { "CPU": "1" }, "ResourcesConfig": { "CPU": " 1 " } });
    assert_eq!(accept_job(&task(same)).spec.tasks[0].resources.cpu, "1");
}

#[test]
fn a_network_that_no_node_has_is_refused() {
    let unavailable = "Tasks[0].Network.Type: HTTP is not available yet; available: None, Full";
    let domains = |problem: &str| format!("Tasks[0].Network.Domains{problem}");
    for (network, expected) in [
        (
            json!({ "Type": "Full", "Domains": ["example.com"] }),
            vec![domains(": is only allowed with Type HTTP, not Full")],
        ),
        (json!({ "Type": "HTTP", "Domains": ["example.com"] }), vec![unavailable.to_owned()]),
        (
            json!({ "Type": "HTTP" }),
            vec![unavailable.to_owned(), domains(": Type HTTP requires at least one domain")],
        ),
        (
            json!({ "Type": "HTTP", "Domains": ["a b"] }),
            vec![unavailable.to_owned(), domains("[0]: 'a b' is not a domain")],
        ),
    ] {
        assert_eq!(problems(&task(json!({ "Network": network }))), expected);
    }
}

#[test]
fn params_of_engines_are_checked() {
    let docker = |params: Value| json!({ "Engine": { "Type": "docker", "Params": params } });
    let wasm = |params: Value| json!({ "Engine": { "Type": "wasm", "Params": params } });
    let module = json!({ "Source": { "Type": "Inline", "Params": { "URL": "data:,x" } } });
    let path = "Tasks[0].Engine.Params";
    for (fields, problem) in [
        (docker(Value::Null), "Image: is required"),
        (docker(json!({ "Image": " " })), "Image: is required"),
        (
            docker(json!({ "image": "i" })),
            "Image: is required, and 'image' is another key: Params match exactly",
        ),
        (docker(json!({ "Image": 5 })), "Image: expected a string, got the number 5"),
        (
            docker(json!({ "Image": "i", "PullPolicy": "daily" })),
            "PullPolicy: 'daily' is not a pull policy; known: missing, always, never",
        ),
        (
            docker(json!({ "Image": "i", "PullPolicy": true })),
            "PullPolicy: expected a string, got true",
        ),
        (
            docker(json!({ "Image": "i", "Entrypoint": "sh" })),
            "Entrypoint: expected an array of strings, got a string",
        ),
        (
            docker(json!({ "Image": "i", "Parameters": ["a", null] })),
            "Parameters[1]: expected a string, got null",
        ),
        (
            docker(json!({ "Image": "i", "EnvironmentVariables": ["A=1", "B"] })),
            "EnvironmentVariables[1]: must be KEY=VALUE, got 'B'",
        ),
        (
            docker(json!({ "Image": "i", "WorkingDirectory": "work" })),
            "WorkingDirectory: must be an absolute path, got 'work'",
        ),
        (wasm(json!({})), "EntryModule: is required"),
        (
            wasm(json!({ "EntryModule": {} })),
            "EntryModule.Source: is required: an object with Type and Params",
        ),
        (
            wasm(json!({ "EntryModule": module, "ImportModules": [5] })),
            "ImportModules[0]: expected an input source, got the number 5",
        ),
        (
            wasm(json!({ "EntryModule": module, "EnvironmentVariables": { "A": true } })),
            "EnvironmentVariables.A: expected a string, got true",
        ),
    ] {
        assert_eq!(problems(&task(fields)), [format!("{path}.{problem}")]);
    }
    let accepted = accept_job(&task(wasm(json!({ "EntryModule": module, "EntryPoint": "run" }))));
    assert_eq!(
        accepted.spec.tasks[0].engine.params["EntryModule"]["Source"]["Type"], "inline",
        "words are stored as they are spelled"
    );
}

#[test]
fn numbers_among_params_have_a_range() {
    for (params, problem) in [
        (
            json!({ "WaitMilliseconds": 86_400_001 }),
            "WaitMilliseconds: must be a whole number between 0 and 86400000, got 86400001",
        ),
        (
            json!({ "WaitMilliseconds": 0.5 }),
            "WaitMilliseconds: must be a whole number between 0 and 86400000, got 0.5",
        ),
        (json!({ "FailEvery": "2" }), "FailEvery: expected a whole number, got a string"),
    ] {
        let engine = json!({ "Engine": { "Type": "noop", "Params": params } });
        let problems = problems(&task(engine));
        assert_eq!(problems, [format!("Tasks[0].Engine.Params.{problem}")]);
    }
    let params = json!({ "FailEvery": 2, "WaitMilliseconds": null, "Other": 1 });
    let accepted = accept_job(&task(json!({ "Engine": { "Type": "noop", "Params": params } })));
    let kept = serde_json::to_value(&accepted.spec.tasks[0].engine.params).unwrap();
    assert_eq!(kept, json!({ "FailEvery": 2 }));
    let warning = "Tasks[0].Engine.Params.Other is not a known field and was ignored";
    assert!(accepted.warnings.iter().any(|it| it == warning), "{:?}", accepted.warnings);
}

#[test]
fn params_of_sources_are_checked() {
    let input = |kind: &str, params: Value| {
        let source = json!({ "Type": kind, "Params": params });
        task(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] }))
    };
    let path = "Tasks[0].InputSources[0].Source";
    for (kind, params, problem) in [
        ("inline", json!({}), "Params.URL: is required"),
        (
            "inline",
            json!({ "URL": "http://x" }),
            "Params.URL: must be a data URL (RFC 2397), like 'data:text/plain,hello'",
        ),
        (
            "inline",
            json!({ "URL": "data:;base64,!!" }),
            "Params.URL: is a data URL with invalid base64",
        ),
        (
            "urldownload",
            json!({ "URL": "ftp://x" }),
            "Params.URL: must be a URL that begins with http:// or https://",
        ),
        (
            "localdirectory",
            json!({ "SourcePath": "data" }),
            "Params.SourcePath: must be an absolute path, got 'data'",
        ),
        (
            "localdirectory",
            json!({ "SourcePath": "/data", "ReadWrite": "yes" }),
            "Params.ReadWrite: expected true or false, got a string",
        ),
        ("s3", json!({ "Key": "k" }), "Params.Bucket: is required"),
        ("repoclone", json!({}), "Params.Repo: is required"),
        ("ipfs", json!({}), "Params.CID: is required"),
        (
            "gopher",
            json!({}),
            "Type: 'gopher' is not an input source; known: inline, urldownload, localdirectory, s3, \
             repoclone, repoclonelfs, ipfs, job",
        ),
    ] {
        assert_eq!(problems(&input(kind, params)), [format!("{path}.{problem}")]);
    }
    for (kind, params) in [
        ("INLINE", json!({ "URL": "data:text/plain;base64,aGVsbG8=" })),
        ("urlDownload", json!({ "URL": "https://example.com/x" })),
        ("localDirectory", json!({ "SourcePath": "/data", "ReadWrite": true })),
        ("s3", json!({ "Bucket": "b", "Key": "k/*", "Region": null })),
        ("repoCloneLFS", json!({ "Repo": "https://example.com/x.git", "Ref": "main" })),
        ("ipfs", json!({ "CID": "c" })),
    ] {
        let accepted = accept_job(&input(kind, params));
        let source = &accepted.spec.tasks[0].input_sources[0].source;
        assert_eq!(source.source_type.as_str(), kind.to_ascii_lowercase());
        assert!(!source.params.contains_key("Region"));
    }
}

#[test]
fn two_inputs_cannot_have_one_target() {
    let input = |target: &str| {
        let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
        json!({ "Source": source, "Target": target })
    };
    let both = json!({ "InputSources": [input("/in"), input("/in/")] });
    let refusal = |target: &str| {
        format!("Tasks[0].InputSources[1].Target: '{target}' is the target of an input already")
    };
    assert_eq!(problems(&task(both)), [refusal("/in/")]);
    let both = json!({ "InputSources": [input("/in"), input("/in")] });
    assert_eq!(problems(&task(both)), [refusal("/in")]);
    let named = |alias: &str| {
        let mut input = input("/in/");
        input["Alias"] = json!(alias);
        input
    };
    for (alias, name) in [("a", "a"), ("", "inline")] {
        let both = json!({ "InputSources": [named(alias), named(alias)] });
        let path = "Tasks[0].InputSources[1].Target";
        let reason = format!("'/in/' has an input named '{name}' already");
        let hint = "give one of them another Alias";
        assert_eq!(problems(&task(both)), [format!("{path}: {reason}: {hint}")]);
    }
    let three = json!({ "InputSources": [named("a"), named("b"), named("")] });
    accept_job(&task(three));
    let root = json!({ "InputSources": [input("/")] });
    assert_eq!(
        problems(&task(root)),
        ["Tasks[0].InputSources[0].Target: must not be the root of the task's file system"]
    );
}

#[test]
fn results_that_are_published_nowhere_are_warned_of() {
    let with = |publisher: &str| {
        let results = json!([{ "Name": "out", "Path": "/out" }]);
        task(json!({ "ResultPaths": results, "Publisher": { "Type": publisher } }))
    };
    let warnings = accept_job(&with("")).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("Tasks[0].ResultPaths are published nowhere"), "{warnings:?}");
    for publisher in ["local", "ipfs", "noop"] {
        assert_eq!(accept_job(&with(publisher)).warnings, Vec::<String>::new());
    }
    let other = task(json!({ "Publisher": { "Type": "none of them" } }));
    assert_eq!(problems(&other).len(), 1);
    assert_eq!(accept_job(&task(json!({}))).warnings, Vec::<String>::new());
}

/// Results under one key would replace each other.
#[test]
fn executions_do_not_share_a_key() {
    let with = |fields: Value, key: &str| {
        let params = json!({ "Bucket": "b", "Key": key });
        let mut job = merged(task(json!({})), fields);
        job["Tasks"][0]["Publisher"] = json!({ "Type": "s3", "Params": params });
        let problems = super::problems_or_none(&job);
        problems.into_iter().map(|it| it.replace("Tasks[0].Publisher.Params.Key: ", "")).collect()
    };
    let shared = |own: &str| {
        vec![format!(
            "would be the same for several executions, whose results would replace each other: it \
             needs {own}"
        )]
    };
    let none = Vec::<String>::new();
    let (three, one) = (json!({ "Count": 3 }), json!({ "Count": 1 }));
    let of_slots = "{executionID} or {index}";
    let of_nodes = "{executionID} or {index} or {nodeID}";
    for (fields, key, expected) in [
        (one.clone(), "results", none.clone()),
        (one, "results/{jobID}", none.clone()),
        (three.clone(), "results", shared(of_slots)),
        (three.clone(), "results/{jobID}/{nodeID}-{date}-{time}", shared(of_slots)),
        (three.clone(), "results/{index}", none.clone()),
        (three, "{executionID}", none.clone()),
        (json!({ "Type": "service", "Count": 2 }), "x", shared(of_slots)),
        (json!({ "Type": "ops" }), "x", shared(of_nodes)),
        (json!({ "Type": "daemon" }), "{nodeID}", none),
        (
            json!({ "Type": "batch" }),
            "{executionId}/{index}",
            vec![
                "'{executionId}' is no placeholder; known: {jobID}, {executionID}, {index}, \
                 {nodeID}, {date}, {time}"
                    .to_owned(),
            ],
        ),
    ] {
        let found: Vec<String> = with(fields.clone(), key);
        assert_eq!(found, expected, "{fields} {key}");
    }
}

#[test]
fn a_filter_and_a_repository_are_checked_at_submission() {
    for (kind, params, problem) in [
        (
            "s3",
            json!({ "Bucket": "b", "Key": "k/", "Filter": "part-(" }),
            "Filter: is not a regular expression: unclosed group",
        ),
        (
            "repoclone",
            json!({ "Repo": "git@example.com:x.git" }),
            "Repo: must be a URL that begins with https://, http:// or file:///",
        ),
        (
            "repoclonelfs",
            json!({ "Repo": "ssh://example.com/x.git" }),
            "Repo: must be a URL that begins with https://, http:// or file:///",
        ),
    ] {
        let source = json!({ "Type": kind, "Params": params });
        let inputs = json!([{ "Source": source, "Target": "/in" }]);
        let message = problems(&task(json!({ "InputSources": inputs })));
        assert_eq!(message, [format!("Tasks[0].InputSources[0].Source.Params.{problem}")]);
    }
    for repo in ["file:///srv/x.git", "FILE:///srv/x.git", "http://h/x.git"] {
        let source = json!({ "Type": "repoclone", "Params": { "Repo": repo } });
        let inputs = json!([{ "Source": source, "Target": "/in" }]);
        accept_job(&task(json!({ "InputSources": inputs })));
    }
}
