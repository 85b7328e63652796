//! Pages and files, request by request.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::*;

const HTML: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let field =
        |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
    fields.iter().map(field).collect()
}

fn pages() -> Pages {
    let script = "export const word = 'a word that repeats';\n".repeat(50);
    let contents: BTreeMap<String, &[u8]> = BTreeMap::from([
        ("app.js".to_owned(), script.as_bytes()),
        (
            "index.html".to_owned(),
            b"<script src=\"{{assets}}/app.js\"></script>{{assets}}".as_slice(),
        ),
        ("pages/tiny.svg".to_owned(), b"<svg/>".as_slice()),
    ]);
    Pages::from_contents(&contents)
}

fn get(pages: &Pages, path: &str, fields: &[(&'static str, &str)]) -> Option<Response<Bytes>> {
    pages.answer(&Method::GET, path, &headers(fields))
}

fn field<'a>(response: &'a Response<Bytes>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn what_is_a_page() {
    let get = Method::GET;
    for (method, path, accept, expected) in [
        (&get, "/", "*/*", true),
        (&get, "/", HTML, true),
        (&Method::HEAD, "/", "", true),
        (&Method::POST, "/", HTML, false),
        (&get, "/jobs/j-12ab34cd", HTML, true),
        (&Method::HEAD, "/jobs/j-12ab34cd", HTML, true),
        (&Method::PUT, "/jobs/j-12ab34cd", HTML, false),
        (&get, "/jobs", "TEXT/HTML", true),
        (&get, "/jobs", "text/html;q=0", false),
        (&get, "/jobs", "*/*", false),
        (&get, "/jobs", "application/json", false),
        (&get, "/jobs", "", false),
        (&get, "/apiary", HTML, true),
        (&get, "/api", HTML, false),
        (&get, "/api/", HTML, false),
        (&get, "/api/v1/orchestrator/job", HTML, false),
        (&get, "/ui", HTML, false),
        (&get, "/ui/nothing.js", HTML, false),
        (&get, "/livez", HTML, false),
        (&get, "/livez/", HTML, false),
        (&get, "/readyz", HTML, false),
        (&get, "/metrics", HTML, false),
        (&get, "/metrics/x", HTML, false),
    ] {
        let fields = if accept.is_empty() { Vec::new() } else { vec![("accept", accept)] };
        assert_eq!(is_page(method, path, &headers(&fields)), expected, "{method} {path} {accept}");
    }
}

#[test]
fn the_page_names_the_place_of_its_files() {
    let pages = pages();
    let page = get(&pages, "/jobs", &[("accept", HTML)]).unwrap();
    let place = format!("/ui/{}", pages.digest);
    let expected = format!("<script src=\"{place}/app.js\"></script>{place}");
    assert_eq!(page.body(), expected.as_bytes());
    assert_eq!(pages.digest.len(), 16);
    assert_eq!(field(&page, "content-type"), "text/html; charset=utf-8");
    assert_eq!(field(&page, "cache-control"), "no-cache");
}

#[test]
fn a_file_is_kept_for_ever_only_below_the_digest() {
    let pages = pages();
    let named = get(&pages, &format!("/ui/{}/app.js", pages.digest), &[]).unwrap();
    assert_eq!(field(&named, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(field(&named, "content-type"), "text/javascript; charset=utf-8");
    let plain = get(&pages, "/ui/app.js", &[]).unwrap();
    assert_eq!(field(&plain, "cache-control"), "no-cache");
    assert_eq!(plain.body(), named.body());
    let deep = get(&pages, &format!("/ui/{}/pages/tiny.svg", pages.digest), &[]).unwrap();
    assert_eq!(
        (field(&deep, "content-type"), deep.body()),
        ("image/svg+xml", &Bytes::from("<svg/>"))
    );
    for path in [
        "/ui/",
        "/ui/nothing.js",
        "/ui/0123456789abcdef/app.js",
        "/ui/index.html",
        "/ui/pages",
        "/ui/../Cargo.toml",
        "/ui//app.js",
        "/app.js",
    ] {
        assert!(get(&pages, path, &[]).is_none(), "{path}");
    }
    assert!(pages.answer(&Method::POST, "/ui/app.js", &HeaderMap::new()).is_none());
}

#[test]
fn the_digest_changes_with_every_byte() {
    let of = |path: &str, content: &'static [u8]| {
        Pages::from_contents(&BTreeMap::from([(path.to_owned(), content)])).digest
    };
    let digests = [of("a", b"b"), of("a", b"c"), of("ab", b""), of("b", b"a")];
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
}

#[test]
fn gzip_is_sent_to_those_who_accept_it() {
    let pages = pages();
    for (accept, is_compressed) in [
        ("gzip", true),
        ("GZIP;q=0.1", true),
        ("br, gzip, deflate", true),
        ("*", true),
        ("gzip;q=0", false),
        ("*;q=0", false),
        ("gzip;q=0, *", false),
        ("identity", false),
        ("br", false),
        ("", false),
    ] {
        let response = get(&pages, "/ui/app.js", &[("accept-encoding", accept)]).unwrap();
        let encoding = if is_compressed { "gzip" } else { "" };
        assert_eq!(field(&response, "content-encoding"), encoding, "{accept}");
        assert_eq!(field(&response, "vary"), "Accept-Encoding");
        assert_eq!(field(&response, "content-length"), response.body().len().to_string());
        let mut text = String::new();
        if is_compressed {
            assert!(response.body().len() < pages.files["app.js"].plain.len() / 5);
            GzDecoder::new(&response.body()[..]).read_to_string(&mut text).unwrap();
        } else {
            text.push_str(std::str::from_utf8(response.body()).unwrap());
        }
        assert_eq!(text.as_bytes(), pages.files["app.js"].plain, "{accept}");
    }
    // It would only grow.
    let tiny = get(&pages, "/ui/pages/tiny.svg", &[("accept-encoding", "gzip")]).unwrap();
    assert_eq!(field(&tiny, "content-encoding"), "");
}

#[test]
fn a_current_copy_is_not_sent_again() {
    let pages = pages();
    let plain = get(&pages, "/ui/app.js", &[]).unwrap();
    let gzip = get(&pages, "/ui/app.js", &[("accept-encoding", "gzip")]).unwrap();
    let (plain, gzip) = (field(&plain, "etag").to_owned(), field(&gzip, "etag").to_owned());
    assert_ne!(plain, gzip);
    for (known, status) in [
        (plain.as_str(), 304),
        (&format!("W/{plain}"), 304),
        (&format!("\"other\", {plain}"), 304),
        ("*", 304),
        (&gzip, 200),
        ("\"other\"", 200),
        (plain.trim_matches('"'), 200),
    ] {
        let response = get(&pages, "/ui/app.js", &[("if-none-match", known)]).unwrap();
        assert_eq!(response.status(), status, "{known}");
        assert_eq!(response.body().is_empty(), status == 304, "{known}");
        assert_eq!(field(&response, "etag"), plain);
        assert_eq!(field(&response, "cache-control"), "no-cache");
    }
}

#[test]
fn head_describes_what_get_sends() {
    let pages = pages();
    for path in ["/", "/ui/app.js"] {
        let get = get(&pages, path, &[]).unwrap();
        let head = pages.answer(&Method::HEAD, path, &HeaderMap::new()).unwrap();
        assert!(head.body().is_empty() && !get.body().is_empty());
        assert_eq!(head.headers(), get.headers(), "{path}");
    }
}

#[test]
fn pages_and_files_carry_the_policy() {
    let pages = pages();
    let known = field(&get(&pages, "/", &[]).unwrap(), "etag").to_owned();
    for (path, fields) in [
        ("/", &[][..]),
        ("/ui/app.js", &[]),
        ("/ui/pages/tiny.svg", &[]),
        ("/", &[("if-none-match", known.as_str())]),
    ] {
        let response = get(&pages, path, fields).unwrap();
        let policy = field(&response, "content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types ui",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(field(&response, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(field(&response, "referrer-policy"), "no-referrer", "{path}");
        assert_eq!(field(&response, "cross-origin-resource-policy"), "same-origin", "{path}");
    }
}

/// The compiler notices changed and removed files by itself, but not new ones.
#[test]
fn every_file_is_embedded() {
    fn walk(directory: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut found = BTreeSet::new();
    walk(&root, &root, &mut found);
    // The style sheets are served as one.
    found.retain(|path| !sheet::PARTS.contains(&path.as_str()));
    found.insert(sheet::SHEET.to_owned());
    let pages = Pages::load();
    let embedded: BTreeSet<String> = pages.files.keys().cloned().collect();
    assert_eq!(embedded, found, "`touch crates/web/src/lib.rs` embeds new files");
}

#[test]
fn every_file_has_a_type() {
    for path in Pages::load().files.keys() {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let known = file::content_type(extension);
        assert!(known.is_some(), "assets/{path}: add its type to `content_type`");
    }
}

#[test]
fn the_page_finds_its_files_through_their_place() {
    let pages = Pages::load();
    let place = format!("/ui/{}/", pages.digest);
    for index in pages.pages.iter().map(|(_, index)| index).chain([&pages.index]) {
        let index = String::from_utf8(index.plain.to_vec()).unwrap();
        let referred: Vec<&str> = index
            .split(['"', '\''])
            .filter_map(|text| text.strip_prefix(place.as_str()))
            .filter(|name| name.contains('.'))
            .collect();
        assert!(!referred.is_empty(), "index.html refers to no file: {index}");
        for name in referred {
            let is_file = pages.files.contains_key(name);
            assert!(is_file, "index.html refers to {name}, which is no file");
        }
        assert!(!index.contains("{{") && !index.contains(MODULES), "{index}");
    }
}

#[test]
fn the_style_sheets_are_served_as_one() {
    let pages = Pages::load();
    let sheets = ASSETS.files().filter_map(|file| file.path().to_str());
    let sheets: BTreeSet<&str> = sheets.filter(|path| path.ends_with(".css")).collect();
    assert_eq!(sheets, BTreeSet::from(sheet::PARTS));
    let served = pages.files.keys().filter(|path| path.ends_with(".css"));
    assert_eq!(served.collect::<Vec<_>>(), [sheet::SHEET]);
    let sheet = String::from_utf8(pages.files[sheet::SHEET].plain.to_vec()).unwrap();
    let first = |text: &str| sheet.find(text).unwrap_or_else(|| panic!("no '{text}': {sheet}"));
    assert!(first("color-scheme") < first(".log-line"), "the order counts");
}

#[test]
fn a_page_names_the_modules_of_its_path() {
    let pages = Pages::load();
    for (path, own) in [
        ("/", Some("pages/overview.js")),
        ("/jobs", Some("pages/jobs.js")),
        ("/jobs/j-12ab34cd/logs", Some("pages/job.js")),
        ("/nothing", None),
    ] {
        let page = get(&pages, path, &[("accept", HTML)]).unwrap();
        let text = std::str::from_utf8(page.body()).unwrap();
        let names = |module: &str| {
            text.contains(&format!("rel=\"modulepreload\" href=\"/ui/{}/{module}\"", pages.digest))
        };
        assert!(names("router.js") && !names("app.js"), "{path}: {text}");
        for module in ["pages/overview.js", "pages/jobs.js", "pages/job.js"] {
            assert_eq!(names(module), own == Some(module), "{path}: {module}");
        }
    }
}

/// The limits of the compressed pages together, and of what the first view loads.
#[test]
fn the_pages_stay_within_their_budget() {
    let pages = Pages::load();
    let size = |file: &File| file.gzip.as_ref().unwrap_or(&file.plain).len();
    let all: usize = pages.files.values().map(size).sum();
    assert!(all <= 170_000, "all files have {all} bytes compressed, more than 170,000");
}
