//! What no text for users contains, checked in every response that the harness gets.

use api_types::testing::flaw;
use serde_json::Value;

/// Fields whose texts the service makes for people: of states, events, groups of reasons, and of the
/// envelopes of errors.
const TEXTS: [&str; 4] = ["Message", "Comment", "Hint", "Reason"];

/// A larger body is a long list, of which another test sees a short one.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Checks every response from now on.
pub(super) fn watch() {
    api_client::observed::observe(check_body);
}

/// Panics if a text for users has a flaw.
fn check(what: &str, text: &str) {
    if let Some(flaw) = flaw(text) {
        panic!("{what} contains '{flaw}': {text}");
    }
}

fn check_body(operation: &str, body: &[u8]) {
    if body.len() > MAX_BODY_BYTES {
        return;
    }
    // A response of another kind is an error of its own.
    if let Ok(body) = serde_json::from_slice(body) {
        check_value(operation, &body);
    }
}

fn check_value(what: &str, value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| check_value(what, item)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if TEXTS.contains(&name.as_str()) => {
                        check(&format!("{name} of {what}"), text);
                    }
                    value => check_value(what, value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flaws_are_found_in_states_events_and_envelopes() {
        let flawed = "open: Os { code: 2 }";
        for (is_found, body) in [
            (true, json!({ "Job": { "State": { "Message": flawed } } })),
            (true, json!({ "Events": [{ "Comment": flawed }] })),
            (true, json!({ "Code": "Internal", "Message": "no", "Hint": flawed })),
            (true, json!({ "Details": [{ "Path": "Tasks", "Reason": flawed }] })),
            (false, json!({ "RunOutput": { "stdout": flawed } })),
        ] {
            let body = body.to_string();
            let caught = std::panic::catch_unwind(|| check_body("GET /x", body.as_bytes()));
            assert_eq!(caught.is_err(), is_found, "{body}");
        }
    }
}
