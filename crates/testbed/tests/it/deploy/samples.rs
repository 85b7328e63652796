//! The sample settings files, and all that must know of a setting: the sample, `--help` and
//! `docs/operations.md`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use daemon::sample::{self, Described};
use figment::Figment;
use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use serde_json::Value;
use testbed::harness::binary;

use super::{root, said};

/// A daemon's settings, and where they must be told.
struct Told {
    program: &'static str,
    prefix: &'static str,
    sample: String,
    /// Every setting that there is, tables and key joined by dots.
    known: BTreeSet<String>,
}

// === impl Told ===

impl Told {
    fn orchestrator() -> Self {
        let defaults = serde_json::to_value(orchestrator::Settings::default())
            .expect("settings are plain data");
        let mut known = BTreeSet::new();
        leaves(&defaults, "", &mut known);
        Self::new("orchestrator", orchestrator::settings::ENV_PREFIX, known)
    }

    fn compute_agent() -> Self {
        let mut known = BTreeSet::new();
        fields(&|text| agent(text).map(|_| ()), "", &mut known);
        Self::new("compute-agent", compute_agent::settings::ENV_PREFIX, known)
    }

    fn new(program: &'static str, prefix: &'static str, known: BTreeSet<String>) -> Self {
        let path = root().join(format!("deploy/{program}.toml"));
        let sample = fs::read_to_string(path).expect("the sample is there");
        assert!(known.len() > 5, "{program}: these cannot be all settings: {known:?}");
        Self { program, prefix, sample, known }
    }

    fn described(&self) -> Vec<Described<'_>> {
        sample::settings(&self.sample)
    }

    fn variable(&self, path: &str) -> String {
        let key = path.rsplit('.').next().unwrap_or(path);
        assert!(!key.is_empty());
        format!("{}{}", self.prefix, path.replace('.', "__").to_ascii_uppercase())
    }
}

/// Every value that is no table.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, &path, found);
            }
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// What a structure that refuses unknown keys says it knows, table by table.
fn fields(
    load: &dyn Fn(&str) -> Result<(), Box<figment::Error>>,
    table: &str,
    found: &mut BTreeSet<String>,
) {
    let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    let refusal = load(&format!("{header}no_such_key = 1\n")).err();
    match refusal.map(|refusal| refusal.kind) {
        Some(Kind::UnknownField(key, known)) if key == "no_such_key" => {
            for key in known {
                let path =
                    if table.is_empty() { (*key).to_owned() } else { format!("{table}.{key}") };
                fields(load, &path, found);
            }
        }
        // It is no table, but a value, or a table with keys of the user's own.
        _ => drop(found.insert(table.to_owned())),
    }
}

fn agent(text: &str) -> Result<compute_agent::Settings, Box<figment::Error>> {
    Figment::from(Toml::string(text)).extract().map_err(Box::new)
}

fn told() -> [Told; 2] {
    [Told::orchestrator(), Told::compute_agent()]
}

#[test]
fn the_samples_name_every_setting_and_no_other() {
    for told in told() {
        let named: BTreeSet<_> = told.described().into_iter().map(|it| it.path).collect();
        let Told { program, known, .. } = &told;
        let missing: Vec<_> = known.difference(&named).collect();
        assert!(
            missing.is_empty(),
            "deploy/{program}.toml lacks {missing:?}: add each as '# what it is' above '#key = default'"
        );
        let unknown: Vec<_> = named.difference(known).collect();
        assert!(unknown.is_empty(), "deploy/{program}.toml names {unknown:?}, which do not exist");
        for setting in told.described() {
            assert!(
                !setting.prose.is_empty(),
                "deploy/{program}.toml: say what {} is",
                setting.path
            );
        }
    }
}

#[test]
fn the_samples_hold_the_defaults() {
    let told = Told::orchestrator();
    let loaded: orchestrator::Settings =
        Figment::from(Serialized::defaults(orchestrator::Settings::default()))
            .merge(Toml::string(&sample::uncommented(&told.sample, |it| !it.is_example())))
            .extract()
            .expect("deploy/orchestrator.toml can be loaded");
    assert_eq!(
        format!("{loaded:#?}"),
        format!("{:#?}", orchestrator::Settings::default()),
        "a value of deploy/orchestrator.toml is not the default; say 'By default' where it is an example"
    );

    let told = Told::compute_agent();
    // The variable DOCKER_HOST, where it is set, is the default of this one.
    let is_default = |it: &Described<'_>| !it.is_example() && it.path != "docker.host";
    let loaded = agent(&sample::uncommented(&told.sample, is_default))
        .expect("deploy/compute-agent.toml can be loaded");
    assert_eq!(
        format!("{loaded:#?}"),
        format!("{:#?}", compute_agent::Settings::default()),
        "a value of deploy/compute-agent.toml is not the default; say 'By default' where it is an example"
    );
}

#[test]
fn the_daemons_take_the_samples_with_every_setting_in_force() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for told in told() {
        let file = directory.path().join(told.program);
        fs::write(&file, sample::uncommented(&told.sample, |_| true)).unwrap();
        let file = file.as_path();
        let loaded = match told.program {
            "orchestrator" => {
                orchestrator::Settings::load(Some(file)).err().map(|it| it.to_string())
            }
            _ => compute_agent::Settings::load(Some(file)).err().map(|it| it.to_string()),
        };
        assert_eq!(loaded, None, "deploy/{}.toml with every # removed", told.program);
    }
}

#[test]
fn help_names_every_setting() {
    for told in told() {
        let output = Command::new(binary(told.program)).arg("--help").output().unwrap();
        let help = said(&output);
        assert!(output.status.success(), "{help}");
        for path in &told.known {
            let variable = told.variable(path);
            assert!(help.contains(&format!("  {variable}  [{path}]\n")), "no {variable}:\n{help}");
        }
    }
}

#[test]
fn the_operations_page_has_a_row_for_every_setting() {
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut missing = Vec::new();
    for told in told() {
        for path in &told.known {
            let variable = told.variable(path);
            // Settings of one table may share a row: `PREFIX_TABLE__ONE`, `__OTHER`.
            let (table, key) = variable.rsplit_once("__").unwrap_or((&variable, ""));
            let found = rows.iter().any(|row| {
                row.contains(&format!("`{variable}`"))
                    || (!key.is_empty()
                        && row.contains(&format!("`{table}__"))
                        && row.contains(&format!("`__{key}`")))
            });
            if !found {
                missing.push(variable);
            }
        }
    }
    assert!(missing.is_empty(), "docs/operations.md, \"Settings\", lacks a row for {missing:?}");
}
