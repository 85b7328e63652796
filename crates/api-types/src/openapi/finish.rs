//! Completes a document: adds what holds for every operation.
//!
//! Handlers name the error codes that they may return. The error responses by status come from
//! these codes, each with the envelope narrowed to the codes of its status, so that a document
//! never promises a code under the wrong status.

use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

use super::direction;
use crate::error::{ApiError, Code};

/// The extension in which a handler names its codes.
pub const CODES: &str = "x-error-codes";

/// The extension in which a handler names, by content type, the schema of one line or event of a
/// stream. OpenAPI has `itemSchema` for this only from version 3.2.
pub const ITEMS: &str = "x-item-schema";

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Description of a whole API.
pub struct ApiInfo {
    pub title: &'static str,
    pub description: &'static str,
    /// Name and description of each tag.
    pub tags: &'static [(&'static str, &'static str)],
}

/// Completes a document that was collected from handlers.
///
/// # Panics
/// When a handler names a code that does not exist: no daemon starts then, and no test passes.
pub fn finish(document: impl serde::Serialize, info: &ApiInfo) -> Value {
    let mut document = serde_json::to_value(document).expect("a document is plain data");
    document["info"] = json!({
        "title": info.title,
        "description": info.description,
        "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    });
    document["servers"] = json!([{ "url": "/" }]);
    document["tags"] = info
        .tags
        .iter()
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .collect();
    document["components"]["headers"] = headers();
    document["components"]["parameters"] = parameters();
    document["components"]["schemas"]["ApiError"] =
        serde_json::to_value(ApiError::schema()).expect("a schema is plain data");
    document["components"]["schemas"]["Code"] =
        serde_json::to_value(Code::schema()).expect("a schema is plain data");
    for item in document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        let alone = item.as_object().is_some_and(|item| item.len() == 1);
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            if METHODS.contains(&method.as_str()) {
                finish_operation(method, alone, operation);
            }
        }
    }
    allow_several(&mut document["paths"]);
    direction::split_schemas(&mut document);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        name_variants(schemas);
    }
    document
}

/// Makes variants that include other objects schemas of their own: generators of clients merge objects
/// only under a name.
fn name_variants(schemas: &mut Map<String, Value>) {
    let mut named = Vec::new();
    for (name, schema) in schemas.iter_mut() {
        let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            let Some(word) = word_of(variant) else { continue };
            let variant_name = format!("{name}{word}");
            let reference = json!({ "$ref": format!("#/components/schemas/{variant_name}") });
            named.push((variant_name, core::mem::replace(variant, reference)));
        }
    }
    schemas.extend(named);
}

/// The `Type` of a variant that includes another object.
fn word_of(variant: &Value) -> Option<String> {
    let parts = variant.get("allOf")?.as_array()?;
    let mut words = parts.iter().filter_map(|part| part["properties"]["Type"]["enum"][0].as_str());
    words.next().map(str::to_owned)
}

/// Where a response has one of several shapes, a value may fit more than one of them, as an empty
/// list does; schemas of enums say `oneOf`.
fn allow_several(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            let are_references = |shapes: &Value| {
                shapes.as_array().is_some_and(|all| all.iter().all(|it| it["$ref"].is_string()))
            };
            if fields.get("oneOf").is_some_and(are_references)
                && let Some(shapes) = fields.remove("oneOf")
            {
                fields.insert("anyOf".to_owned(), shapes);
            }
            fields.values_mut().for_each(allow_several);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_several),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn headers() -> Value {
    json!({
        "RequestID": {
            "description": "The ID of the request: the client's, or one that the service assigned.",
            "required": true,
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
        },
        "RetryAfter": {
            "description": "Seconds after which the client may repeat the request.",
            "required": true,
            "schema": { "type": "integer", "minimum": 1 },
        },
    })
}

fn parameters() -> Value {
    json!({
        "Pretty": {
            "name": "pretty",
            "in": "query",
            "description": "Indents the response by two spaces, with or without a value.",
            "allowEmptyValue": true,
            "schema": {},
        },
        "RequestID": {
            "name": "X-Request-Id",
            "in": "header",
            "description": "The ID of this request in the response and in the log. One that is not \
                            1 to 128 visible ASCII characters is replaced.",
            "schema": { "type": "string" },
        },
    })
}

fn finish_operation(method: &str, alone: bool, operation: &mut Value) {
    if let (false, Some(id)) = (alone, operation["operationId"].as_str().map(str::to_owned)) {
        // A handler of several methods has one name for all of them.
        if let Some(stem) = id.strip_suffix("__") {
            let (first, rest) = method.split_at(1);
            operation["operationId"] = format!("{stem}{}{rest}", first.to_uppercase()).into();
        }
    }
    let shared = ["Pretty", "RequestID"]
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }));
    match operation["parameters"].as_array_mut() {
        Some(parameters) => parameters.extend(shared),
        None => operation["parameters"] = shared.to_vec().into(),
    }
    // An optional body is absent, not `null`.
    let content = operation.pointer_mut("/requestBody/content/application~1json/schema");
    let described = content.as_ref().and_then(|schema| schema["oneOf"].as_array()).cloned();
    if let (Some(schema), Some([null, described])) = (content, described.as_deref())
        && null["type"] == "null"
    {
        *schema = described.clone();
        operation["requestBody"]["required"] = false.into();
    }
    let named = operation.as_object_mut().and_then(|operation| operation.remove(CODES));
    let codes: Vec<Code> = named
        .map(|codes| serde_json::from_value(codes).expect("handlers name codes that exist"))
        .unwrap_or_default();
    if codes == [Code::Gone] {
        operation["deprecated"] = true.into();
    }
    for status in codes.iter().map(|code| code.status()) {
        let of_status: Vec<Code> =
            codes.iter().copied().filter(|code| code.status() == status).collect();
        operation["responses"][status.to_string()] = refusal(status, of_status);
    }
    if let Some(items) = operation.as_object_mut().and_then(|operation| operation.remove(ITEMS)) {
        let bodies = ["/requestBody/content", "/responses/200/content"];
        for (kind, name) in items.as_object().into_iter().flatten() {
            let pointers = bodies.map(|body| format!("{body}/{}", kind.replace('/', "~1")));
            let pointer = pointers.iter().find(|pointer| operation.pointer(pointer).is_some());
            let content = pointer.and_then(|pointer| operation.pointer_mut(pointer));
            content.expect("a handler names items for a content type that it has")[ITEMS] = json!({ "$ref": format!("#/components/schemas/{}", name.as_str().unwrap_or_default()) });
        }
    }
    for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        response["headers"]["X-Request-Id"] = json!({ "$ref": "#/components/headers/RequestID" });
    }
}

fn refusal(status: u16, mut codes: Vec<Code>) -> Value {
    codes.sort_by_key(|code| format!("{code:?}"));
    codes.dedup();
    let words: Vec<String> = codes.iter().map(|code| format!("`{code:?}`")).collect();
    let mut headers = Map::new();
    if matches!(status, 429 | 503) {
        headers
            .insert("Retry-After".to_owned(), json!({ "$ref": "#/components/headers/RetryAfter" }));
    }
    json!({
        "description": format!("{}.", words.join(", ")),
        "headers": headers,
        "content": { "application/json": { "schema": {
            "allOf": [
                { "$ref": "#/components/schemas/ApiError" },
                {
                    "type": "object",
                    "properties": {
                        // Not `const`: generators of clients cannot merge it with a number.
                        "Status": { "type": "integer", "minimum": status, "maximum": status },
                        "Code": { "enum": codes },
                    },
                },
            ],
        } } },
    })
}
