//! A parser of the text format for tests: samples, and violations of the conventions.

use std::collections::{BTreeMap, BTreeSet};

/// Labels with few values that are known in advance.
const LABELS: [&str; 24] = [
    "architecture",
    "commit",
    "connection",
    "eligibility",
    "engine",
    "favoured",
    "file",
    "gate",
    "kind",
    "le",
    "membership",
    "method",
    "namespace",
    "os",
    "outcome",
    "pool",
    "refused",
    "resource",
    "route",
    "stage",
    "state",
    "status",
    "unit",
    "version",
];

/// Suffixes of units that are not base units, with the unit to use instead.
const DERIVED_UNITS: [(&str, &str); 6] = [
    ("_milliseconds", "seconds"),
    ("_ms", "seconds"),
    ("_minutes", "seconds"),
    ("_kilobytes", "bytes"),
    ("_megabytes", "bytes"),
    ("_percent", "a ratio"),
];

/// A parsed scrape.
#[derive(Debug, Default)]
pub struct Exposed {
    /// Metric types by name.
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

// === impl Exposed ===

impl Exposed {
    /// Parses the text format 0.0.4; panics at anything else.
    pub fn read(text: &str) -> Self {
        let mut exposed = Self::default();
        for line in text.lines() {
            let mut words = line.splitn(4, ' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                    exposed.helps.insert(name.to_owned(), help.to_owned());
                }
                (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                    let previous = exposed.types.insert(name.to_owned(), kind.to_owned());
                    assert!(previous.is_none(), "{name} is described twice");
                }
                _ => exposed.samples.push(sample(line)),
            }
        }
        exposed
    }

    /// The sum of all samples with this name and these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.samples
            .iter()
            .filter(|(sample, of, _)| {
                sample == name
                    && labels.iter().all(|(key, value)| of.get(*key).is_some_and(|of| of == value))
            })
            .map(|(_, _, value)| value)
            .sum()
    }

    /// The names of all samples.
    pub fn names(&self) -> BTreeSet<&str> {
        self.samples.iter().map(|(name, ..)| name.as_str()).collect()
    }

    /// Violations of the conventions for names, units and labels, each with its metric.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, kind) in &self.types {
            let mut refuse = |reason: &str| broken.push(format!("{name}: {reason}"));
            if !name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            {
                refuse("names must be snake_case");
            }
            if (kind == "counter") != name.ends_with("_total") {
                refuse("counters, and only counters, must end in _total");
            }
            if self.helps.get(name).is_none_or(|help| help.len() < 10) {
                refuse("it has no description");
            }
            let named = name.trim_end_matches("_total");
            for (unit, base) in DERIVED_UNITS {
                if named.ends_with(unit) {
                    refuse(&format!("it must be in {base}"));
                }
            }
            if kind == "histogram" && !named.ends_with("_seconds") && !named.ends_with("_inputs") {
                refuse("the name of a histogram must end with its unit");
            }
        }
        for (name, labels, value) in &self.samples {
            let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let described = [Some(name.as_str()), stem].into_iter().flatten();
            if !described.into_iter().any(|name| self.types.contains_key(name)) {
                broken.push(format!("{name}: it has no type"));
            }
            for (key, text) in labels {
                if !LABELS.contains(&key.as_str()) {
                    broken.push(format!(
                        "{name}: the label {key} is not in the list of bounded labels"
                    ));
                }
                if text.len() > 36 && text.matches('-').count() >= 4 {
                    broken.push(format!("{name}: the label {key} contains an id, {text}"));
                }
            }
            if !value.is_finite() {
                broken.push(format!("{name}: {value}"));
            }
        }
        broken
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("unterminated labels: {line}"));
    let labels = labels
        .split("\",")
        .filter(|label| !label.is_empty())
        .map(|label| {
            let (key, text) =
                label.split_once("=\"").unwrap_or_else(|| panic!("not a label: {line}"));
            (key.to_owned(), text.trim_end_matches('"').to_owned())
        })
        .collect();
    (name.to_owned(), labels, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_the_conventions_are_found() {
        let good = "# HELP a_total All of them.\n# TYPE a_total counter\na_total{state=\"x\",kind=\"y\"} 2\n";
        let exposed = Exposed::read(good);
        assert_eq!(exposed.broken(), Vec::<String>::new());
        assert_eq!(exposed.sum("a_total", &[("kind", "y")]), 2.0);
        assert_eq!(exposed.sum("a_total", &[("kind", "z")]), 0.0);
        for (bad, word) in [
            (good.replace("a_total", "a"), "end in _total"),
            (good.replace("counter", "gauge"), "end in _total"),
            (good.replace("a_total", "a_ms_total"), "in seconds"),
            (good.replace("All of them.", "x"), "no description"),
            (good.replace("kind", "job"), "not in the list of bounded labels"),
            (good.replace("\"y\"", "\"j-0af76519-16cd-43dd-8448-eb211c80319c\""), "contains an id"),
            (good.replace("# TYPE", "# WHAT"), "not a sample"),
        ] {
            let read = std::panic::catch_unwind(|| Exposed::read(&bad).broken().join("; "));
            let found = read.unwrap_or_else(|_| "not a sample".to_owned());
            assert!(found.contains(word), "{word}: {found}");
        }
    }
}
