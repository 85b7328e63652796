//! The table of roles in docs/security.md, operation by operation.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::Method;

use crate::access::Guarded;
use crate::login;
use crate::server::text;

/// The columns of the table after the operation, as whom each is asked.
const COLUMNS: [&str; 8] =
    ["none", "viewer", "submitter", "owner", "monitor", "operator", "admin", "elsewhere"];

/// The row that stands for all operations of the group that was replaced.
pub(crate) const OLD_GROUP: &str = "requester";

/// The table in docs/security.md: for each operation a status in each column. Operations that
/// answer alike share a row.
pub(crate) fn table() -> BTreeMap<String, Vec<u16>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let header = format!("| operation | {} |", COLUMNS.join(" | "));
    let rows = page.split_once(&header).expect("the table").1.lines().skip(2);
    rows.take_while(|row| row.starts_with('|'))
        .flat_map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let operations = cells.next().expect("names");
            let statuses: Vec<u16> = cells.map(|cell| cell.parse().expect("a status")).collect();
            operations
                .split(", ")
                .map(|name| (name.trim_matches('`').to_owned(), statuses.clone()))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[tokio::test]
async fn every_operation_answers_each_role_as_the_table_says() {
    // Only where nodes have certificates can join tokens be made.
    let guarded = Guarded::start_with(false).await;
    let mut tokens = vec![String::new()];
    for role in &COLUMNS[1..4] {
        tokens.push(guarded.token(role, &["home"]).await);
    }
    for role in &COLUMNS[4..7] {
        tokens.push(guarded.token(role, &[]).await);
    }
    tokens.push(guarded.token("owner", &["away"]).await);

    let document = guarded.ask(Method::GET, "/api/v1/openapi.json", &guarded.admin, None).await;
    let paths = document.ok()["paths"].as_object().expect("paths").clone();
    let operations = paths.values().flat_map(|item| item.as_object().expect("operations").values());
    let mut table = table();
    let mut wrong = Vec::new();
    for operation in operations {
        let mut id = text(&operation["operationId"]);
        if operation["tags"][0] == "Requester" {
            if !table.contains_key(OLD_GROUP) {
                continue;
            }
            id = OLD_GROUP.to_owned();
        }
        let statuses = table.remove(&id).unwrap_or_else(|| panic!("{id} is not in the table"));
        for ((column, token), expected) in COLUMNS.iter().zip(&tokens).zip(statuses) {
            let mut requests = guarded.requests(token);
            requests.extend(login::requests(&guarded.issuer));
            let (method, path, body) = requests.get(id.as_str()).expect("how it is asked for");
            let request = guarded.request(method.clone(), path, token, body.as_ref());
            // Of a stream, the head is enough.
            let response = request.send().await.expect("an answer");
            let status = response.status().as_u16();
            if status != expected {
                wrong.push(format!("{id} as {column}: {status} instead of {expected}"));
            }
            if status == 401 {
                assert_eq!(response.headers()["www-authenticate"], "Bearer", "{id}");
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(table, BTreeMap::new(), "the table has operations that do not exist");
}
