//! Tokens, join tokens, namespaces, secrets, credentials, keys and the audit log for people.

use api_types::access::{Namespace, Permissions, Token};
use api_types::audit::{AuditOutcome, AuditRecord};
use api_types::credential::Credential;
use api_types::joining::NodeToken;
use api_types::key::{Key, KeyState};
use api_types::quantity::Bytes;
use api_types::secret::Secret;

use crate::output::{
    Cell, Fields, LOCAL_TIME, Layout, Listed, Tone, age_of_text, local_text, local_word,
    time_of_day,
};

/// `-` for an empty text.
fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// What a list permits.
fn permitted(list: Option<&Vec<String>>) -> String {
    match list {
        None => "all".to_owned(),
        Some(list) if list.is_empty() => "none".to_owned(),
        Some(list) => list.join(","),
    }
}

impl Listed for Token {
    const NOUN: &'static str = "tokens";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["ID", "NAME", "ROLE", "NAMESPACES", "CREATED BY", "AGE", "LAST USE", "EXPIRES"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let last_use = match self.last_use_time.as_str() {
            "" => Cell::plain("never"),
            time => Cell::age(age_of_text(layout.now, time)),
        };
        vec![
            Cell::plain(&self.id),
            Cell::plain(&self.name),
            Cell::plain(self.role.as_str()),
            Cell::plain(self.namespaces.join(",")),
            Cell::plain(or_dash(&self.created_by)),
            Cell::age(age_of_text(layout.now, &self.create_time)),
            last_use,
            Cell::plain(match self.expire_time.as_str() {
                "" => "never".to_owned(),
                time => local_text(time),
            }),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Listed for NodeToken {
    const NOUN: &'static str = "join tokens";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["ID", "LABELS", "FOR", "USES LEFT", "AGE", "EXPIRES"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let labels: Vec<_> =
            self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            Cell::plain(&self.id),
            Cell::plain(or_dash(&labels.join(","))),
            Cell::plain(self.node_id.map_or("any node".to_owned(), |node| node.short())),
            Cell::plain(self.uses_left.to_string()),
            Cell::age(age_of_text(layout.now, &self.create_time)),
            Cell::plain(local_text(&self.expire_time)),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Listed for Secret {
    const NOUN: &'static str = "secrets";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NAMESPACE", "NAME", "VERSION", "AGE", "CHANGED"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        vec![
            Cell::plain(&self.namespace),
            Cell::plain(&self.name),
            Cell::plain(self.version.to_string()),
            Cell::age(age_of_text(layout.now, &self.create_time)),
            Cell::age(age_of_text(layout.now, &self.modify_time)),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Listed for Credential {
    const NOUN: &'static str = "credentials";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NAMESPACE", "NAME", "TYPE", "HOSTS", "BUCKETS", "VERSION", "CHANGED"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        vec![
            Cell::plain(&self.namespace),
            Cell::plain(&self.name),
            Cell::plain(self.credential_type.to_string()),
            Cell::plain(self.hosts.join(",")),
            Cell::plain(or_dash(&self.buckets.join(","))),
            Cell::plain(self.version.to_string()),
            Cell::age(age_of_text(layout.now, &self.modify_time)),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Listed for Namespace {
    const NOUN: &'static str = "namespaces";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec![
            "NAME",
            "ENGINES",
            "NETWORKS",
            "SOURCES",
            "PUBLISHERS",
            "NODES",
            "USED",
            "SHARE",
            "WEIGHT",
            "DESCRIPTION",
        ]
    }

    fn cells(&self, _: &Layout) -> Vec<Cell> {
        let Permissions { engines, networks, sources, publishers, .. } = &self.permissions;
        let lists = [engines, networks, sources, publishers];
        let mut cells = vec![Cell::plain(&self.name)];
        cells.extend(lists.map(|list| Cell::plain(permitted(list.as_ref()))));
        cells.push(Cell::plain(if self.nodes.is_empty() { "all" } else { &self.nodes }));
        cells.push(Cell::plain(used_of_quota(self)));
        cells.push(Cell::plain(percentage(self.usage.share)));
        cells.push(Cell::plain(self.weight.to_string()));
        cells.push(Cell::plain(or_dash(&self.description)));
        cells
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Listed for Key {
    const NOUN: &'static str = "keys";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["KEY", "ID", "STATE", "AGE", "NODES", "LAST CERTIFICATE EXPIRES"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let tone = match self.state {
            KeyState::Active => Tone::Active,
            KeyState::Retiring => Tone::Plain,
        };
        let age = match self.create_time.as_str() {
            "" => Cell::plain("-"),
            time => Cell::age(age_of_text(layout.now, time)),
        };
        vec![
            Cell::plain(self.purpose.as_str()),
            Cell::plain(&self.id),
            Cell::new(self.state.as_str(), tone),
            age,
            Cell::plain(self.nodes.map_or("-".to_owned(), |count| count.to_string())),
            Cell::plain(local_text(&self.last_expiry)),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Listed for AuditRecord {
    const NOUN: &'static str = "records";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        let moment = if layout.wide { "TIME" } else { LOCAL_TIME };
        vec![moment, "USER", "OPERATION", "OBJECT", "OUTCOME", "COUNT", "ADDRESS"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let tone = match self.outcome {
            AuditOutcome::Done => Tone::Plain,
            AuditOutcome::Denied => Tone::Bad,
        };
        vec![
            Cell::plain(match layout.wide {
                true => local_word(&self.time),
                false => time_of_day(&self.time, layout.now),
            }),
            Cell::plain(&self.user),
            Cell::plain(&self.operation),
            Cell::plain(&self.object),
            Cell::new(self.outcome.as_str(), tone),
            Cell::plain(self.count.to_string()),
            Cell::plain(or_dash(&self.address)),
        ]
    }

    fn name(&self) -> String {
        self.sequence.to_string()
    }
}

/// What the live jobs of a namespace hold, next to its quota.
fn used(namespace: &Namespace) -> [(&'static str, String); 5] {
    let Namespace { quota, usage, .. } = namespace;
    let memory = quota.amounts().ok().and_then(|amounts| amounts.memory_bytes);
    let of = |used: String, most: Option<String>| match most {
        Some(most) => format!("{used} of {most}"),
        None => used,
    };
    let number = |most: Option<u32>| most.map(|it| it.to_string());
    [
        ("CPU", of(usage.cpu.clone(), quota.cpu.clone())),
        ("Memory", of(Bytes(usage.memory).to_string(), memory.map(|it| Bytes(it).to_string()))),
        ("GPU", of(usage.gpu.to_string(), quota.gpu.clone())),
        ("Executions", of(usage.executions.to_string(), number(quota.executions))),
        ("Queued", of(usage.queued_executions.to_string(), number(quota.queued_executions))),
    ]
}

fn percentage(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What is used of the quota, in one cell.
fn used_of_quota(namespace: &Namespace) -> String {
    let bounded = used(namespace).into_iter().filter(|(_, text)| text.contains(" of "));
    let parts: Vec<_> = bounded.map(|(label, text)| format!("{label} {text}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// A namespace by itself.
pub(crate) fn namespace_fields(namespace: &Namespace) -> Fields {
    let Permissions { engines, networks, sources, publishers, registries, capabilities } =
        &namespace.permissions;
    let mut fields = Fields::default();
    fields.add("Name", &namespace.name).add_some("Description", &namespace.description);
    fields.add_some("Nodes", &namespace.nodes);
    fields.section("Permitted", |fields| {
        fields
            .add("Engines", permitted(engines.as_ref()))
            .add("Networks", permitted(networks.as_ref()))
            .add("Sources", permitted(sources.as_ref()))
            .add("Publishers", permitted(publishers.as_ref()))
            .add("Registries", permitted(registries.as_ref()))
            .add("Capabilities", if *capabilities == Some(false) { "none" } else { "all" })
            .add("Priority", format!("up to {}", namespace.max_priority));
    });
    fields.section("Used", |fields| {
        for (label, text) in used(namespace) {
            fields.add(label, text);
        }
        fields.add("Share", percentage(namespace.usage.share));
        fields.add("Weight", namespace.weight.to_string());
    });
    for (label, time) in [("Created", &namespace.create_time), ("Changed", &namespace.modify_time)]
    {
        if !time.is_empty() {
            fields.add(label, local_text(time));
        }
    }
    fields
}

/// Credentials by themselves.
pub(crate) fn credential_fields(credential: &Credential) -> Fields {
    let mut fields = Fields::default();
    fields.add("Name", &credential.name).add("Namespace", &credential.namespace);
    fields.add("Type", credential.credential_type.to_string());
    fields.add("Hosts", credential.hosts.join(", "));
    fields.add_some("Buckets", credential.buckets.join(", "));
    fields.add("Version", credential.version.to_string());
    fields
        .add("Created", local_text(&credential.create_time))
        .add("Changed", local_text(&credential.modify_time));
    fields
}

/// A secret by itself.
pub(crate) fn secret_fields(secret: &Secret) -> Fields {
    let mut fields = Fields::default();
    fields.add("Name", &secret.name).add("Namespace", &secret.namespace);
    fields.add("Version", secret.version.to_string());
    fields
        .add("Created", local_text(&secret.create_time))
        .add("Changed", local_text(&secret.modify_time));
    fields
}
