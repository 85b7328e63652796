//! Which modules a page needs, read from the modules themselves: a browser that knows all of them
//! in parallel need not find one in the other, a round trip each.

use std::collections::{BTreeMap, BTreeSet};

/// The module that every page begins with; it names the module of each page.
const APP: &str = "app.js";

/// The texts of the files, by path below `assets`.
type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// A page of the router.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Such as `/jobs/:id`.
    pattern: String,
    pub(crate) module: String,
}

// === impl Route ===

impl Route {
    /// As the router of the pages finds it.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        let pattern = self.pattern.strip_suffix('/').unwrap_or(&self.pattern);
        let mut parts = path.split('/');
        let mut wanted = pattern.split('/');
        loop {
            match (parts.next(), wanted.next()) {
                (None, None) => return true,
                (Some(part), Some(wanted)) if wanted.starts_with(':') && !part.is_empty() => {}
                (Some(part), Some(wanted)) if part == wanted => {}
                _ => return false,
            }
        }
    }
}

/// The pages, in the order in which the router tries them.
pub(crate) fn routes(texts: &Texts<'_>) -> Vec<Route> {
    let app = texts.get(APP).copied().unwrap_or_default();
    let route = |call: &str| {
        let pattern = quoted(call)?.to_owned();
        let module = quoted(call.split_once("import(")?.1)?;
        Some(Route { pattern, module: resolved(APP, module)? })
    };
    app.split("\nroute(").skip(1).filter_map(route).collect()
}

/// The modules that are loaded before the page runs, without the first, which the page itself names.
pub(crate) fn modules(texts: &Texts<'_>, page: Option<&str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> =
        [Some(APP), page].into_iter().flatten().map(str::to_owned).collect();
    while let Some(module) = open.pop() {
        let Some(text) = texts.get(module.as_str()) else { continue };
        open.extend(imports(&module, text).into_iter().filter(|import| !found.contains(import)));
        found.insert(module);
    }
    found.remove(APP);
    found
}

/// What a module imports before it runs. An import that is a call comes later.
fn imports(module: &str, text: &str) -> Vec<String> {
    let statement = |line: &str| {
        let rest = match line.strip_prefix("import ") {
            Some(rest) => rest.split_once(" from ").map_or(rest, |(_, specifier)| specifier),
            None => line.strip_prefix("} from ")?,
        };
        resolved(module, quoted(rest)?)
    };
    text.lines().filter_map(statement).collect()
}

/// The first text in quotation marks.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// The path of a module that another names by a relative path.
fn resolved(module: &str, specifier: &str) -> Option<String> {
    let mut parts: Vec<&str> = module.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    specifier.starts_with('.').then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ASSETS, collect};

    #[test]
    fn routes_match_as_the_router_does() {
        let texts = Texts::from([(
            APP,
            "import { route } from \"./router.js\";\n\
             route(\"/\", \"home\", () => import(\"./pages/home.js\"));\n\
             route(\"/jobs/:id/:tab\", \"job\", () => import(\"./pages/job.js\"));\n",
        )]);
        let routes = routes(&texts);
        let module = |path: &str| {
            routes.iter().find(|route| route.matches(path)).map(|route| route.module.as_str())
        };
        assert_eq!(module("/"), Some("pages/home.js"));
        assert_eq!(module("/jobs/j-1/logs"), Some("pages/job.js"));
        assert_eq!(module("/jobs/j-1/logs/"), Some("pages/job.js"));
        for path in ["/jobs", "/jobs//logs", "/jobs/j-1/logs/more", "/other"] {
            assert_eq!(module(path), None, "{path}");
        }
    }

    #[test]
    fn what_a_module_imports_before_it_runs_is_found_through_others() {
        let texts = Texts::from([
            (APP, "import \"./a.js\";\nroute(\"/\", \"p\", () => import(\"./pages/p.js\"));\n"),
            ("a.js", "import {\n  one,\n  two,\n} from \"./deep/b.js\";\n"),
            (
                "deep/b.js",
                "import { c } from \"../a.js\";\nconst later = () => import(\"./d.js\");\n",
            ),
            ("deep/d.js", ""),
            ("pages/p.js", "import x from \"../deep/d.js\";\n"),
        ]);
        let of = |page| modules(&texts, page).into_iter().collect::<Vec<_>>();
        assert_eq!(of(None), ["a.js", "deep/b.js"]);
        assert_eq!(of(Some("pages/p.js")), ["a.js", "deep/b.js", "deep/d.js", "pages/p.js"]);
    }

    #[test]
    fn every_page_of_the_router_is_found_with_its_modules() {
        let mut contents = BTreeMap::new();
        collect(&ASSETS, &mut contents);
        let texts: Texts<'_> = contents
            .iter()
            .filter_map(|(path, content)| Some((path.as_str(), std::str::from_utf8(content).ok()?)))
            .collect();
        let routes = routes(&texts);
        assert_eq!(routes.len(), texts[APP].matches("import(").count());
        for Route { pattern, module } in routes {
            let found = modules(&texts, Some(&module));
            assert!(found.contains(&module) && found.contains("dom.js"), "{pattern}: {found:?}");
            for name in &found {
                assert!(texts.contains_key(name.as_str()), "{pattern}: {name} is no file");
            }
        }
    }
}
