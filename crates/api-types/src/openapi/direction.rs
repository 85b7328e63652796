//! Gives each type that is both read and written two schemas: one for requests, one for responses.
//!
//! A request may omit fields that have a default, and where people write it, `null` means the same
//! as absent; what agents send is read strictly. A response writes every field, except the few that
//! are omitted when empty. A single schema would either refuse what the service accepts, or promise
//! less than it returns.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const SCHEMAS: &str = "#/components/schemas/";

/// Behind the name of a type that is also answered, where it is sent.
const SENT: &str = "Sent";

/// Operations with this tag read their bodies strictly: programs write them.
const STRICT: &str = "Agent protocol";

/// Fields that answers leave out when they say nothing.
const OPTIONAL_IN_ANSWERS: &[(&str, &[&str])] = &[
    ("ApiError", &["Hint", "Details"]),
    ("ArchiveRequest", &["Path", "End", "Tag"]),
    ("Assignment", &["Message", "Work"]),
    ("CreateGraph", &["Warnings"]),
    ("CreateJob", &["Warnings"]),
    ("DemandedResources", &["CPU", "Memory"]),
    ("Dependency", &["Indexes", "Job"]),
    ("DryRun", &["Downstream", "Indexes", "Warnings"]),
    ("Execution", &["Usage"]),
    ("ExecutionUsage", &["Curve"]),
    ("HeartbeatAnswer", &["Probe"]),
    ("HistoryEvent", &["NodeState", "JobName", "Index", "NodeName"]),
    ("Group", &["WaitingIsMore", "Holders", "Waiters"]),
    ("GroupJob", &["Executions"]),
    ("JobSpec", &["MaxRunning", "MaxFailed", "ConcurrencyGroups", "OnConflict", "DependsOn"]),
    ("JobState", &["FailedCount", "FailedIndexes"]),
    ("LogLine", &["Index", "Partial", "Offset"]),
    ("Node", &["IdleSince", "RefusedAgent"]),
    ("NetworkSpec", &["Domains"]),
    ("NodeToken", &["NodeID", "MaxCapacity"]),
    (
        "Permissions",
        &["Engines", "Networks", "Sources", "Publishers", "Registries", "Capabilities"],
    ),
    ("Ready", &["Message"]),
    ("ReasonGroup", &["Asked", "Largest", "Free", "Key", "Wanted", "Found"]),
    ("RunOutput", &["stdouttail", "stdoutbytes", "stderrtail", "stderrbytes"]),
    ("StreamRequest", &["Tail", "Stream", "From", "Archive"]),
    ("Task", &["Secrets"]),
    ("TaskSecret", &["Path", "Env"]),
    ("Usage", &["Disk"]),
    ("Work", &["NoCapabilities"]),
];

/// A variant of tagged lines that stands for what this release does not know.
const UNKNOWN: &str = "Unknown";

pub(super) fn split_schemas(document: &mut Value) {
    let mut sent = BTreeSet::new();
    let mut answered = BTreeSet::new();
    // Of those that are sent: where `null` is as good as absent.
    let mut lenient = BTreeSet::new();
    for operation in operations(document) {
        names(&operation["requestBody"], &mut sent);
        if operation["tags"] != json!([STRICT]) {
            names(&operation["requestBody"], &mut lenient);
        }
        names(&operation["responses"], &mut answered);
        names(&operation["parameters"], &mut answered);
    }
    let Some(Value::Object(schemas)) = document["components"].get("schemas").cloned() else {
        return;
    };
    close(&schemas, &mut sent);
    close(&schemas, &mut lenient);
    close(&schemas, &mut answered);
    let schemas: Map<String, Value> = schemas
        .into_iter()
        .map(|(name, mut schema)| {
            drop_noise(&mut schema);
            (name, schema)
        })
        .collect();
    let mut finished = Map::new();
    for name in &answered {
        let Some(mut schema) = schemas.get(name).cloned() else { continue };
        drop_unknown(&mut schema);
        require_all(name, &mut schema);
        finished.insert(name.clone(), schema);
    }
    for name in &sent {
        let Some(mut schema) = schemas.get(name).cloned() else { continue };
        drop_unknown(&mut schema);
        let differs = differs_in_requests(&schemas, name);
        if lenient.contains(name) {
            let_out(&mut schema);
        }
        let twice = differs && answered.contains(name);
        let name = if twice { format!("{name}{SENT}") } else { name.clone() };
        rename(&mut schema, &schemas, &answered);
        finished.insert(name, schema);
    }
    document["components"]["schemas"] = finished.into();
    let paths = document["paths"].as_object_mut();
    for item in paths.into_iter().flat_map(Map::values_mut) {
        for operation in item.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if let Some(parameters) = operation.get_mut("parameters") {
                drop_noise(parameters);
            }
            if let Some(body) = operation.get_mut("requestBody") {
                rename(body, &schemas, &answered);
            }
        }
    }
}

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document["paths"].as_object().into_iter().flat_map(Map::values);
    paths.filter_map(Value::as_object).flat_map(Map::values).filter(|item| item.is_object())
}

/// The names of the schemas that a part of the document refers to itself.
fn names(part: &Value, found: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|text| text.strip_prefix(SCHEMAS)) {
                    Some(name) if key == "$ref" => drop(found.insert(name.to_owned())),
                    _ => names(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

/// Adds all that the named schemas refer to in turn.
fn close(schemas: &Map<String, Value>, named: &mut BTreeSet<String>) {
    let mut open: Vec<String> = named.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let mut further = BTreeSet::new();
        names(&schemas[&name], &mut further);
        open.extend(further.into_iter().filter(|name| named.insert(name.clone())));
    }
}

/// Whether the request schema differs from the response schema, because some field is optional.
fn differs_in_requests(schemas: &Map<String, Value>, name: &str) -> bool {
    let mut schema = schemas[name].clone();
    let_out(&mut schema) || refers_to(schemas, name)
}

fn refers_to(schemas: &Map<String, Value>, name: &str) -> bool {
    let mut below = BTreeSet::new();
    names(&schemas[name], &mut below);
    close(schemas, &mut below);
    below.iter().any(|name| let_out(&mut schemas[name].clone()))
}

fn drop_unknown(schema: &mut Value) {
    if let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        variants.retain(|variant| variant["properties"]["Type"]["enum"] != json!([UNKNOWN]));
    }
}

/// Drops the parts of a derived schema that add no meaning: that keys are strings, that an optional
/// field defaults to null or to an empty object, which generators of clients refuse, and defaults of
/// required fields. Also marks integers from zero on as
/// unsigned, which the derived format does not.
fn drop_noise(part: &mut Value) {
    if let Some(fields) = part.as_object_mut() {
        fields.remove("propertyNames");
        let is_nothing = |value: &Value| value.is_null() || *value == json!({});
        if fields.get("default").is_some_and(is_nothing) {
            fields.remove("default");
        }
        drop_defaults_of_required(fields);
        let is_unsigned = fields.get("minimum").is_some_and(|least| *least == json!(0));
        if is_unsigned && fields.get("format").is_some_and(|format| *format == json!("int64")) {
            fields.insert("format".to_owned(), "uint64".into());
        }
    }
    match part {
        Value::Object(fields) => fields.values_mut().for_each(drop_noise),
        Value::Array(items) => items.iter_mut().for_each(drop_noise),
        _ => {}
    }
}

/// Reading is lenient and takes an empty text for what is missing, which a check refuses after it.
fn drop_defaults_of_required(schema: &mut Map<String, Value>) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for name in required.iter().filter_map(Value::as_str) {
        if let Some(field) = fields.get_mut(name).and_then(Value::as_object_mut) {
            field.remove("default");
        }
    }
}

/// Each of the objects that a schema is made of.
fn each_object(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    for part in ["allOf", "oneOf", "anyOf"] {
        let parts = schema.get_mut(part).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(|part| each_object(part, visit));
    }
    if schema.get("properties").is_some() {
        visit(schema);
    }
}

fn require_all(name: &str, schema: &mut Value) {
    let optional = OPTIONAL_IN_ANSWERS.iter().find(|(schema, _)| *schema == name);
    let optional = optional.map_or(&[][..], |(_, fields)| *fields);
    each_object(schema, &mut |object| {
        let fields = object["properties"].as_object().into_iter().flat_map(Map::keys);
        let required: Vec<&String> =
            fields.filter(|field| !optional.contains(&field.as_str())).collect();
        object["required"] = json!(required);
    });
}

/// Allows `null` for optional fields; returns whether there are any.
fn let_out(schema: &mut Value) -> bool {
    let mut any = false;
    each_object(schema, &mut |object| {
        let required = object.get("required").cloned().unwrap_or_else(|| json!([]));
        let fields = object["properties"].as_object_mut();
        for (name, field) in fields.into_iter().flatten() {
            let is_required = required.as_array().is_some_and(|all| all.contains(&json!(name)));
            if !is_required {
                any = true;
                or_null(field);
            }
        }
    });
    any
}

fn or_null(field: &mut Value) {
    match field.get("type").cloned() {
        Some(Value::String(word)) => {
            field["type"] = json!([word, "null"]);
            if let Some(words) = field.get_mut("enum").and_then(Value::as_array_mut) {
                words.push(Value::Null);
            }
        }
        Some(_) => {}
        None if field.get("$ref").is_some() => {
            *field = json!({ "oneOf": [{ "type": "null" }, field.take()] });
        }
        None => {}
    }
}

/// Lets references lead to what is sent, where that has a separate schema.
fn rename(part: &mut Value, schemas: &Map<String, Value>, answered: &BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = value.as_str().and_then(|text| text.strip_prefix(SCHEMAS));
                match name {
                    Some(name) if key == "$ref" => {
                        if answered.contains(name) && differs_in_requests(schemas, name) {
                            *value = format!("{SCHEMAS}{name}{SENT}").into();
                        }
                    }
                    _ => rename(value, schemas, answered),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| rename(item, schemas, answered));
        }
        _ => {}
    }
}
