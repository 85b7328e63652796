//! A house rule: the files of a crate know each other in one direction.
//!
//! What a file imports, or names with a path, it knows. Two files of one folder may know each
//! other, as a module and its part do; a larger circle can only be understood as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::tidy::{assert_none, root};

/// Files in one circle.
const MAX_CIRCLE: usize = 2;

/// Files with methods of one type of the scheduler. A method may call any other unseen, whereas the
/// function of another file is imported.
const MAX_FILES_OF_A_TYPE: usize = 3;

/// A file, as the path of its module from its crate.
type Module = Vec<String>;

/// What each file knows.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Every module of a crate with its source, but for those that only tests have.
fn modules(sources: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources can be read") {
            let path = entry.expect("the sources can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let relative = path.strip_prefix(sources).expect("it is below its crate");
            let relative = relative.with_extension("");
            let names = relative.iter().map(|name| name.to_string_lossy().into_owned());
            let module: Module = names.filter(|name| name != "lib").collect();
            let only_for_tests =
                |name: &String| ["tests", "contract", "testing"].contains(&name.as_str());
            if !module.iter().any(only_for_tests) {
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                found.insert(module, code_of(&text));
            }
        }
    }
    found
}

/// Without comments, the contents of strings, the reach of visibilities, and the tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let noise = r#"//[^\n]*|"(?:\\.|[^"\\])*"|\bpub\(in [^)]*\)"#;
    Regex::new(noise).expect("a pattern").replace_all(text, "").into_owned()
}

/// The paths of a `use` tree.
fn paths(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inside = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut branches) = (0, vec![String::new()]);
    for letter in inside.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(String::new());
                continue;
            }
            _ => {}
        }
        branches.last_mut().expect("there is a first").push(letter);
    }
    let branches = branches.iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(|branch| paths(&format!("{}{}", prefix.trim(), branch.trim()))).collect()
}

/// The file that a path leads into, seen from a module; none when it leads out of the crate.
fn resolve(modules: &BTreeMap<Module, String>, from: &Module, path: &str) -> Option<Module> {
    let mut names = path.split("::").peekable();
    let mut at = match *names.peek()? {
        "crate" => Module::new(),
        "self" | "super" => from.clone(),
        first => {
            let child = [from.as_slice(), &[first.to_owned()]].concat();
            modules.contains_key(&child).then(|| from.clone())?
        }
    };
    for name in names {
        match name {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name.to_owned());
                if !modules.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    (at != *from).then_some(at)
}

fn known_in(modules: &BTreeMap<Module, String>) -> Imports {
    let import = Regex::new(r"\buse ([^;]+);").expect("a pattern");
    let path = Regex::new(r"\b[a-z_]\w*(?:::\w+)+").expect("a pattern");
    let known_by = |module: &Module, code: &str| {
        let imported = import.captures_iter(code).flat_map(|found| paths(&found[1]));
        let rest = import.replace_all(code, "");
        let named = path.find_iter(&rest).map(|found| found.as_str().to_owned());
        imported.chain(named).filter_map(|path| resolve(modules, module, &path)).collect()
    };
    modules.iter().map(|(module, code)| (module.clone(), known_by(module, code))).collect()
}

/// All that can be reached from a module.
fn reach(known: &Imports, from: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<_> = known[from].iter().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next.clone()) {
            waiting.extend(known.get(next).into_iter().flatten());
        }
    }
    reached
}

/// Whether all lie in one folder, to which the file of the same name counts.
fn share_a_folder(circle: &[&Module]) -> bool {
    let shortest = circle.iter().min_by_key(|module| module.len()).expect("a circle has files");
    let folder_of = |module: &Module| module.split_last().map(|(_, folder)| folder.to_vec());
    circle.iter().all(|module| {
        let folder = folder_of(module);
        *module == *shortest || folder == folder_of(shortest) || folder.as_ref() == Some(*shortest)
    })
}

/// Circles that are too large, or leave their folder; each as its files.
fn circles(known: &Imports) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<_, _> =
        known.keys().map(|module| (module, reach(known, module))).collect();
    let mut broken = BTreeSet::new();
    for (module, far) in &reached {
        let circle: Vec<_> = reached
            .keys()
            .filter(|it| far.contains(**it) && reached[*it].contains(*module))
            .copied()
            .collect();
        if circle.len() > MAX_CIRCLE || (circle.len() > 1 && !share_a_folder(&circle)) {
            broken.insert(circle.iter().map(|it| it.join("/")).collect());
        }
    }
    broken
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).expect("the repository can be read");
    let crates = entries.map(|entry| entry.expect("the repository can be read").path());
    let mut crates: Vec<_> = crates.filter(|path| path.join("src").is_dir()).collect();
    crates.sort();
    crates
}

#[test]
fn no_circle_has_more_than_two_files_or_leaves_its_folder() {
    let (mut files, mut broken) = (0, Vec::new());
    for folder in crates() {
        let name = folder.file_name().expect("a crate has a name").to_string_lossy();
        let modules = modules(&folder.join("src"));
        files += modules.len();
        for circle in circles(&known_in(&modules)) {
            let circle: Vec<_> = circle.iter().map(|file| format!("{name}/{file}")).collect();
            broken.push(circle.join(" "));
        }
    }
    assert!(files > 700, "the sources have moved; this test has to follow");
    assert_none("these files know each other in a circle", &broken);
}

#[test]
fn no_type_of_the_scheduler_has_methods_in_more_than_three_files() {
    let method_block = Regex::new(r"(?m)^impl(?:<[^{]*>)? (\w+)[^{\n]* \{$").expect("a pattern");
    let mut files_of = BTreeMap::<_, BTreeSet<_>>::new();
    for (module, code) in modules(&root().join("crates/scheduler/src")) {
        let blocks = method_block.captures_iter(&code).filter(|found| !found[0].contains(" for "));
        for found in blocks {
            files_of.entry(found[1].to_owned()).or_default().insert(module.join("/"));
        }
    }
    assert_eq!(files_of["State"].len(), 3, "the state has moved; this test has to follow");
    let broken = files_of.iter().filter(|(_, files)| files.len() > MAX_FILES_OF_A_TYPE);
    let broken: Vec<_> = broken.map(|(name, files)| format!("{name}: {files:?}")).collect();
    assert_none("make some of these methods functions", &broken);
}

#[test]
fn a_tree_of_imports_is_taken_apart() {
    let tree = "crate::{host::{clock, mint as m}, node}";
    assert_eq!(paths(tree), ["crate::host::clock", "crate::host::mint", "crate::node"]);
}

#[test]
fn a_circle_of_three_is_found_and_a_visibility_is_no_import() {
    let module = |name: &str| Module::from([name.to_owned()]);
    let known = |last: &str| {
        let files = [("a", "use crate::b::B;"), ("b", "fn b() { crate::c::c() }"), ("c", last)];
        known_in(&files.map(|(name, code)| (module(name), code_of(code))).into())
    };
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(circles(&known("use super::a::A;")), BTreeSet::from([names]));
    assert!(circles(&known("pub(in crate::a) fn c() {} // crate::a")).is_empty());
}
