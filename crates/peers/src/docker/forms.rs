//! The requests that an agent makes, and the only form in which it may make them.

use http::Request;
use hyper::body::Incoming;

/// Bytes of the largest request target: a path inside a task, percent-encoded.
const MAX_TARGET_BYTES: usize = 16 << 10;

const HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-registry-auth",
];

/// One request, with its names decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Version,
    Info,
    DiskUsage,
    ListImages,
    InspectImage(String),
    RemoveImage(String),
    PullImage { name: String, tag: String },
    LoadImage,
    ListContainers,
    Create { name: String },
    OfContainer { name: String, what: &'static str },
}

// === impl Call ===

impl Call {
    /// The name of the operation in the Engine's API.
    pub(super) fn operation(&self) -> &'static str {
        match self {
            Self::Version => "SystemVersion",
            Self::Info => "SystemInfo",
            Self::DiskUsage => "SystemDataUsage",
            Self::ListImages => "ImageList",
            Self::InspectImage(_) => "ImageInspect",
            Self::RemoveImage(_) => "ImageDelete",
            Self::PullImage { .. } => "ImageCreate",
            Self::LoadImage => "ImageLoad",
            Self::ListContainers => "ContainerList",
            Self::Create { .. } => "ContainerCreate",
            Self::OfContainer { what, .. } => match *what {
                "inspect" => "ContainerInspect",
                "start" => "ContainerStart",
                "stop" => "ContainerStop",
                "wait" => "ContainerWait",
                "stats" => "ContainerStats",
                "logs" => "ContainerLogs",
                "remove" => "ContainerDelete",
                "read archive" => "ContainerArchive",
                "write archive" => "PutContainerArchive",
                _ => "ContainerArchiveInfo",
            },
        }
    }
}

/// Why the request is none that an agent makes.
pub(super) fn parse(request: &Request<Incoming>) -> Result<Call, String> {
    let target = request.uri().to_string();
    if target.len() > MAX_TARGET_BYTES {
        return Err("its target is too long".to_owned());
    }
    for name in request.headers().keys() {
        if !HEADERS.contains(&name.as_str()) {
            return Err(format!("an agent sends no header {name}"));
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = pairs(query)?;
    let segments = path.strip_prefix('/').ok_or("its path is not absolute")?.split('/');
    let segments = segments.map(decoded).collect::<Result<Vec<_>, _>>()?;
    let mut segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if segments.first().is_some_and(|version| version.starts_with("v1.")) {
        let version = segments.remove(0);
        if !version[3..].bytes().all(|byte| byte.is_ascii_digit()) || version.len() > 6 {
            return Err("its version is no version".to_owned());
        }
    }
    let (call, keys) = call(request.method().as_str(), &segments, &query)?;
    match query.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
        Some((key, _)) => Err(format!("this request has no parameter '{key}'")),
        None => Ok(call),
    }
}

type Query = Vec<(String, String)>;

fn call(
    method: &str,
    segments: &[&str],
    query: &Query,
) -> Result<(Call, &'static [&'static str]), String> {
    let value = |wanted: &str| {
        let found = query.iter().find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    Ok(match (method, segments) {
        ("GET", ["version"]) => (Call::Version, &[]),
        ("GET", ["info"]) => (Call::Info, &[]),
        ("GET", ["system", "df"]) => (Call::DiskUsage, &["type", "verbose"]),
        ("GET", ["images", "json"]) => {
            (Call::ListImages, &["all", "shared-size", "digests", "manifests"])
        }
        ("POST", ["images", "create"]) => {
            let name = image(&value("fromImage"))?;
            let tag = image(&value("tag"))?;
            (Call::PullImage { name, tag }, &["fromImage", "tag"])
        }
        ("POST", ["images", "load"]) => (Call::LoadImage, &["quiet"]),
        ("GET", ["images", name, "json"]) => (Call::InspectImage(image(name)?), &[]),
        ("DELETE", ["images", name]) => (Call::RemoveImage(image(name)?), &["force", "noprune"]),
        ("GET", ["containers", "json"]) => (Call::ListContainers, &["all", "size", "filters"]),
        ("POST", ["containers", "create"]) => {
            (Call::Create { name: container(&value("name"))? }, &["name", "platform"])
        }
        ("DELETE", ["containers", name]) => {
            (container_call(name, "remove")?, &["v", "force", "link"])
        }
        ("GET", ["containers", name, "json"]) => (container_call(name, "inspect")?, &["size"]),
        ("POST", ["containers", name, "start"]) => (container_call(name, "start")?, &[]),
        ("POST", ["containers", name, "stop"]) => (container_call(name, "stop")?, &["t"]),
        ("POST", ["containers", name, "wait"]) => (container_call(name, "wait")?, &["condition"]),
        ("GET", ["containers", name, "stats"]) => {
            (container_call(name, "stats")?, &["stream", "one-shot"])
        }
        ("GET", ["containers", name, "logs"]) => (
            container_call(name, "logs")?,
            &["follow", "stdout", "stderr", "since", "until", "timestamps", "tail"],
        ),
        ("GET", ["containers", name, "archive"]) => {
            (container_call(name, "read archive")?, &["path"])
        }
        ("HEAD", ["containers", name, "archive"]) => {
            (container_call(name, "look into archive")?, &["path"])
        }
        ("PUT", ["containers", name, "archive"]) if value("path") == "/" => {
            (container_call(name, "write archive")?, &["path"])
        }
        _ => return Err("it is none of an agent's requests".to_owned()),
    })
}

fn container_call(name: &str, what: &'static str) -> Result<Call, String> {
    Ok(Call::OfContainer { name: container(name)?, what })
}

/// Agents name containers after executions.
fn container(name: &str) -> Result<String, String> {
    let id = ["execution-e-", "sandbox-", "twin-"].iter().find_map(|kind| name.strip_prefix(kind));
    let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match id.is_some_and(is_id) {
        true => Ok(name.to_owned()),
        false => Err(format!("'{}' is no container of an agent", name.escape_debug())),
    }
}

/// Nothing in the name of an image has a meaning in a path, but for the slash.
fn image(name: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-[]".contains(&byte);
    let has_dots = || name.split('/').any(|part| matches!(part, "" | "." | ".."));
    match name.bytes().all(is_plain) && !has_dots() {
        true => Ok(name.to_owned()),
        false => Err(format!("'{}' is no image", name.escape_debug())),
    }
}

fn pairs(query: &str) -> Result<Query, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').ok_or("a parameter has no value")?;
        Ok((decoded(key)?, decoded(&value.replace('+', "%20").replace('*', "%2A"))?))
    });
    pairs.collect()
}

/// Every byte with a meaning, and every one that is not ASCII, must be percent-encoded.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = match *first {
            b'%' => {
                let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(byte.ok_or("a '%' without two digits")?);
                &after[2..]
            }
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                bytes.push(byte);
                after
            }
            byte => return Err(format!("'{}' is not encoded", char::from(byte).escape_debug())),
        };
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}
