//! Every setting appears in the sample settings files and in `--help`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use daemon::sample::{self, Described};
use figment::Figment;
use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use serde_json::Value;
use testbed::harness::binary;

use super::{root, text_of};

/// A daemon's settings and its sample file.
struct Daemon {
    program: &'static str,
    prefix: &'static str,
    sample: String,
    /// All settings, as table and key joined by dots.
    known: BTreeSet<String>,
}

// === impl Daemon ===

impl Daemon {
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
        let sample = fs::read_to_string(path).expect("the sample exists");
        assert!(known.len() > 5, "{program}: settings are missing: {known:?}");
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

/// Collects the paths of all values that are not tables.
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

/// Collects the keys that a structure lists when it refuses an unknown key, table by table.
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
        // A value, or a table with arbitrary keys.
        _ => drop(found.insert(table.to_owned())),
    }
}

fn agent(text: &str) -> Result<compute_agent::Settings, Box<figment::Error>> {
    Figment::from(Toml::string(text)).extract().map_err(Box::new)
}

fn daemons() -> [Daemon; 2] {
    [Daemon::orchestrator(), Daemon::compute_agent()]
}

#[test]
fn the_samples_contain_every_setting_and_no_other() {
    for daemon in daemons() {
        let named: BTreeSet<_> = daemon.described().into_iter().map(|it| it.path).collect();
        let Daemon { program, known, .. } = &daemon;
        let missing: Vec<_> = known.difference(&named).collect();
        assert!(
            missing.is_empty(),
            "deploy/{program}.toml lacks {missing:?}: add each as '# what it is' above '#key = default'"
        );
        let unknown: Vec<_> = named.difference(known).collect();
        assert!(unknown.is_empty(), "deploy/{program}.toml names {unknown:?}, which do not exist");
        for setting in daemon.described() {
            assert!(!setting.prose.is_empty(), "deploy/{program}.toml: describe {}", setting.path);
        }
    }
}

#[test]
fn the_samples_contain_the_defaults() {
    let daemon = Daemon::orchestrator();
    let loaded: orchestrator::Settings =
        Figment::from(Serialized::defaults(orchestrator::Settings::default()))
            .merge(Toml::string(&sample::uncommented(&daemon.sample, |it| !it.is_example())))
            .extract()
            .expect("deploy/orchestrator.toml can be loaded");
    assert_eq!(
        format!("{loaded:#?}"),
        format!("{:#?}", orchestrator::Settings::default()),
        "a value of deploy/orchestrator.toml is not the default; say 'By default' where it is an example"
    );

    let daemon = Daemon::compute_agent();
    // The default of this setting is the variable DOCKER_HOST, if it is set.
    let is_default = |it: &Described<'_>| !it.is_example() && it.path != "docker.host";
    let loaded = agent(&sample::uncommented(&daemon.sample, is_default))
        .expect("deploy/compute-agent.toml can be loaded");
    assert_eq!(
        format!("{loaded:#?}"),
        format!("{:#?}", compute_agent::Settings::default()),
        "a value of deploy/compute-agent.toml is not the default; say 'By default' where it is an example"
    );
}

#[test]
fn the_daemons_accept_the_samples_with_every_setting_enabled() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for daemon in daemons() {
        let file = directory.path().join(daemon.program);
        fs::write(&file, sample::uncommented(&daemon.sample, |_| true)).unwrap();
        let file = file.as_path();
        let loaded = match daemon.program {
            "orchestrator" => {
                orchestrator::Settings::load(Some(file)).err().map(|it| it.to_string())
            }
            _ => compute_agent::Settings::load(Some(file)).err().map(|it| it.to_string()),
        };
        assert_eq!(loaded, None, "deploy/{}.toml with every # removed", daemon.program);
    }
}

#[test]
fn help_lists_every_setting() {
    for daemon in daemons() {
        let output = Command::new(binary(daemon.program)).arg("--help").output().unwrap();
        let help = text_of(&output);
        assert!(output.status.success(), "{help}");
        for path in &daemon.known {
            let variable = daemon.variable(path);
            assert!(help.contains(&format!("  {variable}  [{path}]\n")), "no {variable}:\n{help}");
        }
    }
}
