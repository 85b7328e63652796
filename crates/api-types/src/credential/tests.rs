//! Which servers credentials are for, and where tasks name them.

use serde_json::json;

use super::*;
use crate::engine::EngineType;
use crate::image::ImageReference;
use crate::job::Task;

fn scope<'a>(kind: CredentialType, hosts: &'a [String], buckets: &'a [String]) -> Scope<'a> {
    Scope { name: "c", credential_type: kind, hosts, buckets }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_login_goes_to_listed_hosts_over_https_only() {
    let hosts =
        texts(&["git.example.com", "git.example.com:8443", "*.corp.example", "127.0.0.1:3000"]);
    let scope = scope(CredentialType::Git, &hosts, &[]);
    for url in [
        "https://git.example.com/a/b.git",
        "https://GIT.example.com:443/a",
        "https://git.example.com.:8443/a",
        "https://user@git.example.com/a",
        "https://x.y.corp.example/",
        "http://127.0.0.1:3000/a",
    ] {
        assert_eq!(scope.check_url(url), Ok(()), "{url}");
    }
    for url in [
        "http://git.example.com/a",
        "https://git.example.com:9000/",
        "https://git.example.com.evil.org/",
        "https://evil.org/git.example.com",
        "https://git.example.com@evil.org/",
        "https://evil.org\\@git.example.com/",
        "https://corp.example/",
        "https://notcorp.example/",
        "https://127.0.0.1/",
        "ftp://git.example.com/",
        "git.example.com",
    ] {
        assert!(scope.check_url(url).is_err(), "{url}");
    }
}

fn registry_of(image: &str) -> Server<'static> {
    let image = ImageReference::parse(image).unwrap();
    Server::Registry(image.registry().map(str::to_owned))
}

#[test]
fn credentials_are_for_no_image_without_a_registry() {
    let hosts = texts(&["docker.io"]);
    let registry = scope(CredentialType::Registry, &hosts, &[]);
    let id = format!("sha256:{}", "0".repeat(64));
    let refused = registry.check(CredentialType::Registry, &registry_of(&id)).unwrap_err();
    assert_eq!(refused.to_string(), "credentials 'c' are for a registry, and the Image names none");
}

#[test]
fn type_bucket_and_registry_are_checked() {
    let (hosts, buckets) =
        (texts(&["docker.io", "r.example:5000", "*.amazonaws.com"]), texts(&["b"]));
    let registry = scope(CredentialType::Registry, &hosts, &[]);
    for image in ["alpine", "index.docker.io/library/alpine", "r.example:5000/a:1"] {
        let server = registry_of(image);
        assert_eq!(registry.check(CredentialType::Registry, &server), Ok(()), "{image}");
    }
    let other = registry_of("r.example/a:1");
    let refused = registry.check(CredentialType::Registry, &other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "credentials 'c' are not for r.example: their Hosts are docker.io, r.example:5000, \
         *.amazonaws.com"
    );
    let s3 = scope(CredentialType::S3, &hosts, &buckets);
    let bucket = |endpoint, bucket| Server::Bucket { endpoint, bucket };
    assert_eq!(s3.check(CredentialType::S3, &bucket("", "b")), Ok(()));
    let far = "https://s3.eu-west-1.amazonaws.com";
    assert_eq!(s3.check(CredentialType::S3, &bucket(far, "b")), Ok(()));
    assert!(s3.check(CredentialType::S3, &bucket(far, "other")).is_err());
    assert!(s3.check(CredentialType::S3, &bucket("https://minio.example", "b")).is_err());
    let refused = s3.check(CredentialType::Git, &Server::Url(far)).unwrap_err();
    assert_eq!(refused.to_string(), "credentials 'c' are of type s3, and git is needed");
}

#[test]
fn patterns_of_hosts_are_hosts() {
    for good in ["ghcr.io", "h:5000", "*.example.com", "[::1]:80", "10.0.0.1", "localhost"] {
        assert_eq!(check_host_pattern(good), Ok(()), "{good}");
    }
    for bad in
        ["", "*", "*.com", "https://h", "h/a", "h:port", "h:", "a b", "*.*.com", "u@h", "h:70000"]
    {
        assert!(check_host_pattern(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_login_has_what_its_type_needs_and_is_never_shown() {
    let user = || Login { username: "u".into(), password: "hush".into(), ..Login::default() };
    let bearer = || Login { token: "hush".into(), ..Login::default() };
    assert_eq!(user().problems(CredentialType::Registry), []);
    assert_eq!(user().problems(CredentialType::Http), []);
    assert_eq!(bearer().problems(CredentialType::Http), []);
    let fields =
        |login: Login, of| login.problems(of).iter().map(|(field, _)| *field).collect::<Vec<_>>();
    assert_eq!(fields(bearer(), CredentialType::Git), ["Username", "Password", "Token"]);
    assert_eq!(
        fields(user(), CredentialType::S3),
        ["Username", "Password", "AccessKeyID", "SecretAccessKey"]
    );
    let broken =
        Login { username: "a:b".into(), password: "a\r\nHost: x".into(), ..Login::default() };
    assert_eq!(fields(broken, CredentialType::Git), ["Password", "Username"]);
    assert!(!format!("{:?}", user()).contains("hush"));
}

fn task_with(parts: serde_json::Value) -> Task {
    let mut task = serde_json::to_value(Task::new("t", EngineType::Docker)).unwrap();
    task.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    serde_json::from_value(task).unwrap()
}

#[test]
fn a_task_names_credentials_wherever_it_reads_or_writes() {
    let source = |kind: &str, params: serde_json::Value| json!({ "Source": { "Type": kind, "Params": params }, "Target": "/in" });
    let task = task_with(json!({
        "Engine": { "Type": "docker", "Params": { "Image": "ghcr.io/a/b", "Credentials": "image" } },
        "InputSources": [
            source("urldownload", json!({ "URL": "https://h/x", "Credentials": "url" })),
            source("s3", json!({ "Bucket": "b", "Key": "k", "Credentials": "bucket" })),
            source("repoclone", json!({ "Repo": "https://g/x" })),
            source("inline", json!({ "URL": "data:,x", "Credentials": "ignored" })),
        ],
        "Publisher": { "Type": "s3", "Params": {
            "Bucket": "b", "Key": "k", "Endpoint": "https://e", "Credentials": "out" } },
    }));
    let named = task.credentials();
    let found: Vec<_> = named.iter().map(|named| (named.path.as_str(), named.name)).collect();
    assert_eq!(
        found,
        [
            ("Engine.Params.Credentials", "image"),
            ("InputSources[0].Source.Params.Credentials", "url"),
            ("InputSources[1].Source.Params.Credentials", "bucket"),
            ("Publisher.Params.Credentials", "out"),
        ]
    );
    assert_eq!(named[0].server, Server::Registry(Some("ghcr.io".to_owned())));
    assert_eq!(named[2].server, Server::Bucket { endpoint: "", bucket: "b" });

    let task = task_with(json!({
        "Engine": { "Type": "wasm", "Params": {
            "EntryModule": source("urldownload", json!({ "URL": "https://h/m", "Credentials": "m" })),
            "ImportModules": [source("repoclone", json!({ "Repo": "https://g/x", "Credentials": "n" }))],
        } },
    }));
    let found: Vec<_> = task.credentials().iter().map(|named| named.path.clone()).collect();
    assert_eq!(
        found,
        [
            "Engine.Params.EntryModule.Source.Params.Credentials",
            "Engine.Params.ImportModules[0].Source.Params.Credentials",
        ]
    );
}
