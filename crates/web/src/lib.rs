//! The pages of the web UI: embedded in the program, compressed once, and served from memory.
//!
//! The files of `assets`, without their comments, are served below `/ui/<hash of all of them>/`,
//! where caches may keep them forever, and below `/ui/`, where caches must revalidate them.
//! `index.html` is the answer at `/` and at every other path that a browser opens; it finds the
//! files through `{{assets}}`, which is replaced by the first of these two places. So a browser
//! never mixes the files of two releases. The style sheets are served as one. It also names the
//! modules of the page at that path, in place of a comment: the browser fetches them together, and
//! not each when another has named it.
//!
//! Rejected: a build script that compresses or bundles, because building the service should need
//! neither npm nor deno.

mod caching;
mod comments;
mod file;
mod preload;
mod sheet;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use include_dir::{Dir, include_dir};
use ring::digest;

use crate::caching::{Cached, answer};
use crate::file::File;
use crate::preload::Route;

static ASSETS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/assets");

/// The file that every page begins with.
const INDEX: &str = "index.html";

/// Where the files are; below it no path is a page.
const FILES: &str = "/ui/";

/// Stands in `index.html` for the place of the files.
const PLACEHOLDER: &str = "{{assets}}";

/// Stands in `index.html` for the modules that are needed first.
const MODULES: &str = "<!-- modules -->";

/// Paths that programs use: neither they nor anything below them is ever a page.
const NOT_PAGES: [&str; 5] = ["/api", "/ui", "/livez", "/readyz", "/metrics"];

/// Bytes of the digest of all files that their place contains.
const PLACE_BYTES: usize = 8;

/// What the pages may do: load their own files, and talk to their own server. `script-src` excludes
/// inline scripts, and the policy of trusted types excludes markup made from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types ui";

/// The headers of the page and of its files.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The pages, ready to be served.
#[derive(Debug)]
pub struct Pages {
    /// The digest of all files, as their place contains it.
    digest: String,
    /// At every path at which there is no page; a page says that there is none.
    index: File,
    /// The same for each page, with its modules.
    pages: Vec<(Route, File)>,
    /// By path below `assets`.
    files: BTreeMap<String, File>,
}

/// Whether the request is for a page: the first path, or one that a browser opens and that belongs
/// to no program.
pub fn is_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let is_reserved = NOT_PAGES.iter().any(|reserved| {
        path.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    matches!(*method, Method::GET | Method::HEAD)
        && !is_reserved
        && (path == "/" || caching::accepts_html(headers))
}

// === impl Pages ===

impl Pages {
    /// Compresses the files and computes their digests: tens of milliseconds, and twice their size of
    /// memory.
    pub fn load() -> Self {
        let mut contents = BTreeMap::new();
        collect(&ASSETS, &mut contents);
        Self::from_contents(&contents)
    }

    fn from_contents(contents: &BTreeMap<String, &[u8]>) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for (path, content) in contents {
            for part in [path.as_bytes(), content] {
                context.update(&(part.len() as u64).to_be_bytes());
                context.update(part);
            }
        }
        let digest = file::hex(&context.finish().as_ref()[..PLACE_BYTES]);
        let mut served: BTreeMap<&str, Bytes> =
            contents.iter().map(|(path, content)| (path.as_str(), served(path, content))).collect();
        sheet::join(&mut served);
        let texts = served
            .iter()
            .filter_map(|(path, content)| Some((*path, std::str::from_utf8(content).ok()?)));
        let texts: BTreeMap<&str, &str> = texts.collect();
        let place = format!("{FILES}{digest}");
        let index = |page: Option<&str>| {
            let text = texts.get(INDEX).copied().unwrap_or_default();
            let text = text.replace(MODULES, &links(&preload::modules(&texts, page)));
            File::new(INDEX, Bytes::from(text.replace(PLACEHOLDER, &place)))
        };
        let routes = preload::routes(&texts).into_iter();
        let pages = routes.map(|route| {
            let index = index(Some(&route.module));
            (route, index)
        });
        let (pages, index) = (pages.collect(), index(None));
        let file = |(path, content): (&str, Bytes)| (path.to_owned(), File::new(path, content));
        Self { digest, index, pages, files: served.clone().into_iter().map(file).collect() }
    }

    /// The page or file at this path; none if the path belongs to neither.
    pub fn answer(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        let (file, cached) = if is_page(method, path, headers) {
            (self.index(path), Cached::Revalidated)
        } else {
            self.file(path).filter(|_| matches!(*method, Method::GET | Method::HEAD))?
        };
        let mut response = answer(file, cached, method, headers);
        response.headers_mut().extend(HEADERS);
        Some(response)
    }

    fn index(&self, path: &str) -> &File {
        let found = self.pages.iter().find(|(route, _)| route.matches(path));
        found.map_or(&self.index, |(_, index)| index)
    }

    fn file(&self, path: &str) -> Option<(&File, Cached)> {
        let path = path.strip_prefix(FILES)?;
        let below = path.strip_prefix(self.digest.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let (name, cached) = match below {
            Some(name) => (name, Cached::ForEver),
            None => (path, Cached::Revalidated),
        };
        // Only `/` and the paths of pages show it with the place of its files in it.
        let file = self.files.get(name).filter(|_| name != INDEX)?;
        Some((file, cached))
    }
}

fn links(modules: &BTreeSet<String>) -> String {
    let link = |module| format!("<link rel=\"modulepreload\" href=\"{PLACEHOLDER}/{module}\">");
    modules.iter().map(link).collect::<Vec<_>>().join("\n    ")
}

fn served(path: &str, content: &[u8]) -> Bytes {
    let bare = std::str::from_utf8(content).ok().and_then(|text| comments::left_out(path, text));
    bare.map_or_else(|| Bytes::copy_from_slice(content), Bytes::from)
}

fn collect<'a>(directory: &'a Dir<'a>, contents: &mut BTreeMap<String, &'a [u8]>) {
    for file in directory.files() {
        contents.insert(file.path().to_string_lossy().into_owned(), file.contents());
    }
    for directory in directory.dirs() {
        collect(directory, contents);
    }
}

#[cfg(test)]
mod tests;
