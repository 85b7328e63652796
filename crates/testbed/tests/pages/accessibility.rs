//! Every page opens, in both schemes and on narrow screens, without a fault that axe, the browser's
//! policy or a person would find.

use std::fs;
use std::path::{Path, PathBuf};

use api_types::job::JobStateType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};

use super::browser::{Browser, in_browser};
use super::named;

/// The environment variable with the path of `axe.min.js`, which `.ci/run` takes from PyPI.
const AXE_VARIABLE: &str = "AXE";

/// Set, it replaces the pictures of the documentation.
const UPDATE_VARIABLE: &str = "UPDATE_PICTURES";

/// The pages of which the documentation has pictures, and what these are called.
const DOCUMENTED: [(&str, &str); 9] = [
    ("busy-overview-light-1280", "overview"),
    ("busy-jobs-light-1280", "jobs"),
    ("busy-waiting-light-1280", "waiting"),
    ("busy-failed-light-1280", "failed"),
    ("busy-logs-dark-1280", "logs-dark"),
    ("busy-submit-light-1280", "submit"),
    ("access-light-1280", "access"),
    ("join-token-secret-light-1280", "join-token"),
    ("audit-light-1280", "audit"),
];

/// Runs axe and reports each violation with the elements that have it.
const RUN_AXE: &str = "
    const done = arguments[0];
    axe.run({ resultTypes: ['violations'] }).then(({ violations }) =>
        done(violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html).join(' | ')}`)));
";

/// The script. If it is not there, prints the reason and returns `None`, or panics when `CI` is set.
pub(super) fn axe() -> Option<String> {
    let missing = match std::env::var_os(AXE_VARIABLE) {
        Some(path) => match fs::read_to_string(&path) {
            Ok(script) => return Some(script),
            Err(error) => format!("cannot read {}: {error}", Path::new(&path).display()),
        },
        None => format!("{AXE_VARIABLE} names no axe.min.js; .ci/run installs it from PyPI"),
    };
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped the check by axe: {missing}");
    None
}

/// A cluster with jobs in several states, and the paths of all pages about them.
async fn populated() -> (Cluster, Vec<(&'static str, String)>) {
    let agent = AgentSpec::new().engines("noop").label("zone", "a");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let done = cluster.submit(&named("done")).await;
    cluster.wait_for_job(done, JobStateType::Completed).await;
    let mut waits = named("waits");
    waits["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["mars"] }]);
    waits["Labels"] = json!({ "team": "docs" });
    let waits = cluster.submit(&waits).await;
    cluster.wait_for_job(waits, JobStateType::Queued).await;
    let node = cluster.agents[0].node_id();
    let mut pages: Vec<(&'static str, String)> = vec![
        ("overview", "/".to_owned()),
        ("jobs", "/jobs".to_owned()),
        ("no-jobs", "/jobs?state=Failed".to_owned()),
        ("submit", "/submit".to_owned()),
        ("edit", format!("/submit?from={done}")),
        ("nodes", "/nodes".to_owned()),
        ("node", format!("/nodes/{node}")),
        ("events", "/events".to_owned()),
        ("reference", "/reference".to_owned()),
        ("operation", "/reference/createJob".to_owned()),
        ("waiting", format!("/jobs/{waits}")),
        ("executions", format!("/jobs/{done}")),
        ("unknown-job", "/jobs/j-00000000".to_owned()),
        ("unknown-page", "/nothing".to_owned()),
    ];
    for tab in ["timeline", "logs", "history", "results", "specification"] {
        pages.push((tab, format!("/jobs/{done}/{tab}")));
    }
    (cluster, pages)
}

pub(super) async fn prefer_scheme(browser: &Browser, scheme: &str) {
    let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    browser.devtools("Emulation.setEmulatedMedia", feature).await;
}

/// What the browser shows now is without fault, fits, and is kept as a picture.
pub(super) async fn assert_accessible(browser: &Browser, axe: Option<&str>, page: &str) {
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.value(fits).await, json!(true), "{page} scrolls sideways");
    if let Some(axe) = axe {
        // The page's policy admits no script but its own; the browser's own protocol is not bound by it.
        browser.devtools("Runtime.evaluate", json!({ "expression": axe })).await;
        let violations: Value =
            browser.client.execute_async(RUN_AXE, Vec::new()).await.expect("run axe");
        assert_eq!(violations, json!([]), "{page}");
    }
    browser.assert_no_fault(page).await;
    keep_picture(browser, page).await;
}

/// A picture to look at, in the directory of this test's files.
async fn keep_picture(browser: &Browser, name: &str) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ui");
    fs::create_dir_all(&directory).expect("make the directory of pictures");
    let picture = browser.devtools("Page.captureScreenshot", json!({})).await;
    let bytes = STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64");
    fs::write(directory.join(format!("{name}.png")), &bytes).expect("write the picture");
    let documented = DOCUMENTED.iter().find(|(page, _)| *page == name);
    if let (Some((_, documented)), Some(_)) = (documented, std::env::var_os(UPDATE_VARIABLE)) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ui");
        fs::write(directory.join(format!("{documented}.png")), bytes).expect("write the picture");
    }
}

/// Every page is without fault in these schemes and widths.
async fn assert_all_accessible(looks: [(&str, u32); 2]) {
    let (cluster, pages) = populated().await;
    let axe = axe();
    in_browser(&cluster, async |browser| {
        for (scheme, width) in looks {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            for (name, path) in &pages {
                let page = format!("{name}-{scheme}-{width}");
                browser.visit(path).await;
                assert_accessible(browser, axe.as_deref(), &page).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_page_is_accessible_in_both_schemes_and_on_narrow_screens() {
    assert_all_accessible([("light", 1280), ("dark", 360)]).await;
}

#[tokio::test]
#[ignore = "long"]
async fn every_page_is_accessible_in_the_other_scheme_of_each_width() {
    assert_all_accessible([("dark", 1280), ("light", 360)]).await;
}
