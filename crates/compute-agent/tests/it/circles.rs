//! A house rule: the agent's files know each other in one direction.
//!
//! What a file imports, or names with a path, it knows. Two files of one folder may know each
//! other, as a module and its part do; a larger circle can only be understood all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

/// Files in one circle.
const MAX_CIRCLE: usize = 2;

/// A file, as the path of its module below the crate.
type Module = Vec<String>;

/// Every module with its source, but for those that only tests have.
fn modules() -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources can be read") {
            let path = entry.expect("the sources can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(&root).expect("it is below the root");
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
    assert!(found.len() > 50, "the sources have moved; this test has to follow");
    found
}

/// Without comments, the contents of strings and the tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let noise = Regex::new(r#"//[^\n]*|"(?:\\.|[^"\\])*""#).expect("a pattern");
    noise.replace_all(text, "").into_owned()
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

fn known_by(modules: &BTreeMap<Module, String>, module: &Module, code: &str) -> BTreeSet<Module> {
    let import = Regex::new(r"\buse ([^;]+);").expect("a pattern");
    let path = Regex::new(r"\b[a-z_]\w*(?:::\w+)+").expect("a pattern");
    let imported = import.captures_iter(code).flat_map(|found| paths(&found[1]));
    let rest = import.replace_all(code, "");
    let named = path.find_iter(&rest).map(|found| found.as_str().to_owned());
    imported.chain(named).filter_map(|path| resolve(modules, module, &path)).collect()
}

/// All that can be reached from a module.
fn reach(known: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<_> = known[from].iter().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next.clone()) {
            waiting.extend(&known[next]);
        }
    }
    reached
}

/// Whether all lie in one folder, to which the file beside it counts.
fn share_a_folder(circle: &[&Module]) -> bool {
    let shortest = circle.iter().min_by_key(|module| module.len()).expect("a circle has files");
    let folder_of = |module: &Module| module.split_last().map(|(_, folder)| folder.to_vec());
    circle.iter().all(|module| {
        let folder = folder_of(module);
        *module == *shortest || folder == folder_of(shortest) || folder.as_ref() == Some(*shortest)
    })
}

#[test]
fn no_circle_has_more_than_two_files_or_leaves_its_folder() {
    let modules = modules();
    let known: BTreeMap<_, _> = modules
        .iter()
        .map(|(module, code)| (module.clone(), known_by(&modules, module, code)))
        .collect();
    let reached: BTreeMap<_, _> =
        known.keys().map(|module| (module, reach(&known, module))).collect();
    let mut broken = BTreeSet::new();
    for (module, far) in &reached {
        let circle: Vec<_> = reached
            .keys()
            .filter(|it| far.contains(**it) && reached[*it].contains(*module))
            .collect();
        let circle: Vec<&Module> = circle.into_iter().copied().collect();
        if circle.len() > MAX_CIRCLE || (circle.len() > 1 && !share_a_folder(&circle)) {
            broken.insert(circle.iter().map(|it| it.join("/")).collect::<Vec<_>>().join(" "));
        }
    }
    assert!(broken.is_empty(), "these files know each other in a circle:\n{broken:#?}");
}

#[test]
fn a_tree_of_imports_is_taken_apart() {
    let tree = "crate::{host::{clock, mint as m}, node}";
    assert_eq!(paths(tree), ["crate::host::clock", "crate::host::mint", "crate::node"]);
}
