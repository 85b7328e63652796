//! What would fail on every node is refused at the submission.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{accept_job, merged, plain, problems, problems_or_none, task};

/// A job with the path in one of the places that a container has for paths.
fn with(place: &str, path: &str) -> (Value, String) {
    let inline = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    match place {
        "Target" => (
            task(json!({ "InputSources": [{ "Source": inline, "Target": path }] })),
            "Tasks[0].InputSources[0].Target".to_owned(),
        ),
        "ResultPaths" => (
            task(json!({ "ResultPaths": [{ "Name": "a", "Path": path }] })),
            "Tasks[0].ResultPaths[0].Path".to_owned(),
        ),
        "Secrets" => (
            task(json!({ "Secrets": [{ "Name": "a", "Path": path }] })),
            "Tasks[0].Secrets[0].Path".to_owned(),
        ),
        _ => (
            docker(json!({ "Image": "i", "WorkingDirectory": path })),
            "Tasks[0].Engine.Params.WorkingDirectory".to_owned(),
        ),
    }
}

fn docker(params: Value) -> Value {
    task(json!({ "Engine": { "Type": "docker", "Params": params } }))
}

const PLACES: [&str; 4] = ["Target", "ResultPaths", "Secrets", "WorkingDirectory"];

#[test]
fn no_path_of_a_container_is_among_the_kernels_files() {
    for place in PLACES {
        for path in ["/proc", "/proc/x", "//proc/x", "/./sys", "/sys/./fs", "/dev", "/dev/null/x"] {
            let (job, field) = with(place, path);
            let found = problems(&job);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(
                found[0].starts_with(&format!("{field}: must not be at or below '/")),
                "{found:?}"
            );
        }
        for path in ["/process", "/systems/a", "/a/proc", "/.dev", "/devices"] {
            accept_job(&with(place, path).0);
        }
    }
    accept_job(&with("Target", "/dev/shm/data").0);
    for path in ["/dev/shm", "/dev/shm/", "/dev/shmx"] {
        assert_eq!(problems(&with("Target", path).0).len(), 1, "{path}");
    }
    let gone = problems(&with("ResultPaths", "/dev/./shm/out").0);
    assert!(gone[0].contains("gone when its process ends"), "{gone:?}");
    assert_eq!(problems(&with("Secrets", "/dev/shm/key").0).len(), 1);
}

#[test]
fn paths_are_as_long_as_linux_makes_them() {
    let component = |bytes: usize| format!("/{}", "x".repeat(bytes));
    let whole = |bytes: usize| {
        let path = component(200).repeat(30);
        path[..bytes].to_owned()
    };
    for place in PLACES {
        accept_job(&with(place, &component(255)).0);
        accept_job(&with(place, &whole(4095)).0);
        for (path, problem) in [
            (component(256), "must not have more than 255 bytes between '/'"),
            (component(300) + "/a", "must not have more than 255 bytes between '/'"),
            (format!("/a{}", component(300)), "must not have more than 255 bytes between '/'"),
            (whole(4096), "must not be longer than 4095 bytes"),
        ] {
            let (job, field) = with(place, &path);
            assert_eq!(problems(&job), [format!("{field}: {problem}")]);
        }
    }
}

#[test]
fn a_program_of_webassembly_may_use_any_name() {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let engine = json!({ "Type": "wasm", "Params": { "EntryModule": { "Source": source } } });
    let job = task(json!({
        "Engine": engine,
        "InputSources": [{ "Source": source, "Target": "/proc/in" }],
        "ResultPaths": [{ "Name": "a", "Path": "/dev/shm/out" }],
    }));
    accept_job(&job);
}

#[test]
fn inputs_and_secrets_do_not_hide_one_another() {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let input = |target: &str| json!({ "Source": source, "Target": target });
    let place = "Tasks[0].InputSources[1].Target";
    for (first, second, problem) in [
        ("/in", "/in", "'/in' is the target of an input already"),
        ("/in", "//in/.", "'//in/.' is the target of an input already"),
        ("/in", "/in/a", "'/in/a' is below '/in', the target of an input"),
        ("/in/", "/in/./a/b", "'/in/./a/b' is below '/in/', the target of an input"),
        ("/in/a/b", "/in", "'/in' is above '/in/a/b', the target of an input"),
    ] {
        let job = task(json!({ "InputSources": [input(first), input(second)] }));
        assert_eq!(problems(&job), [format!("{place}: {problem}")]);
    }
    accept_job(&task(json!({ "InputSources": [input("/in"), input("/input"), input("/a/in")] })));

    let secret = |path: &str| json!({ "Name": "s", "Path": path });
    for path in ["/in", "/in/key", "/"] {
        let job = task(json!({ "InputSources": [input("/in")], "Secrets": [secret(path)] }));
        assert_eq!(problems(&job).len(), 1, "{path}");
    }
    for (first, second) in [("/k", "/./k"), ("/k", "/k/a"), ("/k/a", "/k")] {
        let job = task(json!({ "Secrets": [secret(first), secret(second)] }));
        let found = problems(&job);
        assert!(found[0].starts_with("Tasks[0].Secrets[1].Path: "), "{found:?}");
    }
}

/// An input of this type, and whether it is a directory, as far as the job alone tells.
fn sources() -> Vec<(&'static str, Value, bool)> {
    // The head of a tar, which is all that says so.
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let data = |kind: &str, bytes: &[u8]| json!({ "URL": format!("data:application/{kind};base64,{}", STANDARD.encode(bytes)) });
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let packed = gzip.finish().unwrap();
    vec![
        ("inline", data("gzip", &packed), true),
        ("inline", data("x-tar", &tar), true),
        ("inline", data("octet-stream", &tar), false),
        ("inline", data("gzip", b"no tar"), false),
        ("repoclone", json!({ "Repo": "https://h/r" }), true),
        ("repoclonelfs", json!({ "Repo": "https://h/r" }), true),
        ("localdirectory", json!({ "SourcePath": "/data" }), true),
        ("s3", json!({ "Bucket": "b", "Key": "k/" }), true),
        ("s3", json!({ "Bucket": "b", "Key": "k*" }), true),
        ("s3", json!({ "Bucket": "b", "Key": "k/l" }), false),
        ("urldownload", json!({ "URL": "https://h/x" }), false),
        ("ipfs", json!({ "CID": "c" }), false),
    ]
}

#[test]
fn only_files_share_a_directory_whatever_their_source_is() {
    let with = |(kind, params): (&str, &Value), target: &str, alias: &str| {
        let source = json!({ "Type": kind, "Params": params });
        json!({ "Source": source, "Target": target, "Alias": alias })
    };
    for (one_kind, one, one_is_directory) in &sources() {
        for (kind, other, is_directory) in &sources() {
            let (one, other) = ((*one_kind, one), (*kind, other));
            let both = [with(one, "/in/", "a"), with(other, "/in/", "b")];
            let found = problems_or_none(&task(json!({ "InputSources": both })));
            let is_refused = *one_is_directory || *is_directory;
            assert_eq!(found.len(), usize::from(is_refused), "{one:?} {other:?}: {found:?}");
            // Nesting is refused, and neighbours are not.
            for (target, below, problems) in [
                ("/in", "/in/x", 1),
                ("/in/", "/in/x", 1),
                ("/in/x", "/in", 1),
                ("/in/x", "/in/y", 0),
            ] {
                let both = [with(one, target, ""), with(other, below, "")];
                let found = problems_or_none(&task(json!({ "InputSources": both })));
                assert_eq!(found.len(), problems, "{one:?} {other:?}: {found:?}");
            }
        }
    }
}

#[test]
fn files_that_would_have_one_name_in_a_directory_are_refused() {
    let url = |url: &str| json!({ "Type": "urldownload", "Params": { "URL": url } });
    let object = |key: &str| json!({ "Type": "s3", "Params": { "Bucket": "b", "Key": key } });
    for (one, other, name) in [
        (url("https://h/a/x.csv?v=1"), url("https://g/b/x.csv#top"), Some("x.csv")),
        (url("https://h/a/x.csv"), object("data/x.csv"), Some("x.csv")),
        (url("https://h"), url("https://h/?x=/y"), Some("download")),
        (url("https://h/x.csv"), url("https://h/y.csv"), None),
        (object("a/x"), object("b/y"), None),
    ] {
        let inputs = [&one, &other].map(|source| json!({ "Source": source, "Target": "/in/" }));
        let expected: Vec<_> = name
            .into_iter()
            .map(|name| {
                format!(
                    "Tasks[0].InputSources[1].Target: '/in/' has an input named '{name}' already: \
                     give one of them another Alias"
                )
            })
            .collect();
        assert_eq!(problems_or_none(&task(json!({ "InputSources": inputs }))), expected);
    }
}

#[test]
fn a_target_is_compared_even_if_the_source_is_none() {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    let inputs = [
        json!({ "Source": source, "Target": "/in" }),
        json!({ "Source": { "Type": "none" }, "Target": "/in/x" }),
    ];
    let found = problems(&task(json!({ "InputSources": inputs })));
    assert!(found.iter().any(|problem| problem.contains("'/in/x' is below '/in'")), "{found:?}");
}

#[test]
fn an_alias_is_the_name_of_a_file() {
    let source = json!({ "Type": "inline", "Params": { "URL": "data:,x" } });
    for alias in ["a/b", "/", "..", ".", "../../x", "x/"] {
        let input = json!({ "Source": source, "Target": "/in/", "Alias": alias });
        let problem = "Tasks[0].InputSources[0].Alias: must be the name of one file, without '/'";
        assert_eq!(problems(&task(json!({ "InputSources": [input] }))), [problem]);
    }
}

#[test]
fn a_version_or_a_checksum_is_of_one_object() {
    let path = "Tasks[0].InputSources[0].Source.Params";
    for key in ["data/", "data/*", "*"] {
        for field in ["VersionID", "ChecksumSHA256"] {
            let params = json!({ "Bucket": "b", "Key": key, field: "x" });
            let input = json!({ "Source": { "Type": "s3", "Params": params }, "Target": "/in" });
            assert_eq!(
                problems(&task(json!({ "InputSources": [input] }))),
                [format!("{path}.{field}: applies to one object, and the Key '{key}' is a prefix")]
            );
        }
    }
}

#[test]
fn a_name_that_is_none_of_an_image_is_refused() {
    for image in [
        "../containers/x/archive?path=/etc/shadow&x=",
        "../distribution/127.0.0.1:5000/a",
        "Alpine",
        "alpine:",
        "a b",
        "https://example.com/a",
        "alpine@sha256:00",
    ] {
        let found = problems(&docker(json!({ "Image": image })));
        let wanted = format!("Tasks[0].Engine.Params.Image: '{image}' is not a reference");
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{found:?}");
    }
    let digest = format!("alpine@sha256:{}", "0".repeat(64));
    for image in ["alpine", "ghcr.io/a/b:1.0", "localhost:5000/a", &digest, &digest[7..]] {
        accept_job(&docker(json!({ "Image": image })));
    }
}

#[test]
fn arguments_and_variables_are_what_the_kernel_takes() {
    const LONGEST: usize = 131_071;
    let text = |bytes: usize| "x".repeat(bytes);
    for (params, field) in [
        (json!({ "Parameters": ["a", text(LONGEST + 1)] }), "Parameters[1]"),
        (json!({ "Entrypoint": [text(LONGEST + 1)] }), "Entrypoint[0]"),
        (
            json!({ "EnvironmentVariables": [format!("A={}", text(LONGEST - 1))] }),
            "EnvironmentVariables[0]",
        ),
    ] {
        let params = merged(json!({ "Image": "i" }), params);
        let found = problems(&docker(params));
        let wanted = format!("Tasks[0].Engine.Params.{field}: must not be longer than {LONGEST}");
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{found:?}");
    }
    accept_job(&docker(json!({ "Image": "i", "Parameters": [text(LONGEST)] })));
    let found = problems(&task(json!({ "Env": { "A": text(LONGEST - 1) } })));
    assert!(found[0].starts_with("Tasks[0].Env.A: must not be longer than 131071"), "{found:?}");

    let parameters = vec![text(100_000); 21];
    let found = problems(&docker(json!({ "Image": "i", "Parameters": parameters })));
    assert!(
        found[0].starts_with("Tasks[0].Engine.Params: the arguments and variables"),
        "{found:?}"
    );
    accept_job(&docker(json!({ "Image": "i", "Parameters": vec![text(100_000); 20] })));
    accept_job(&plain());
}
