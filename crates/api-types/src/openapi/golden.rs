//! The files of the OpenAPI documents, which the daemons serve and their tests write.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Set to rewrite the file.
const UPDATE: &str = "UPDATE_OPENAPI";

/// Checks that the file `openapi.json` of a crate is the document, or writes it.
///
/// # Panics
/// If the file is another, or cannot be written.
pub fn check_golden(folder: &str, document: &Value) {
    let path = Path::new(folder).join("openapi.json");
    if std::env::var_os(UPDATE).is_some() {
        let text = serde_json::to_string_pretty(document).expect("JSON");
        fs::write(&path, text + "\n").expect("the folder can be written to");
        return;
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    let golden: Value = serde_json::from_str(&text).unwrap_or_default();
    let parts = ["info", "paths", "components", "tags", "servers", "openapi"];
    let differs: Vec<_> = parts.iter().filter(|part| golden[**part] != document[**part]).collect();
    assert!(
        golden == *document,
        "{} is not what the handlers say (see {differs:?}). If the API was meant to change, write \
         it anew with\n  {UPDATE}=1 cargo test --workspace --lib -- openapi::\nand read the \
         difference",
        path.display()
    );
}
