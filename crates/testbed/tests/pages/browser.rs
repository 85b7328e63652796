//! A separate browser for each test: chromedriver in its own process group, and a session that is
//! deleted however the test ends.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use futures_util::FutureExt as _;
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use testbed::harness::{Cluster, eventually_within};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// The environment variables with the programs, where they are not on the `PATH`.
const DRIVER_VARIABLE: &str = "CHROMEDRIVER";
const BROWSER_VARIABLE: &str = "CHROMIUM";

/// What chromedriver prints once it listens; the port follows.
const LISTENS: &str = "was started successfully on port ";

/// How long chromedriver may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// What it prints before it ends because another process has its port: it takes a free one for
/// IPv6, and then the same for IPv4.
const PORT_TAKEN: &str = "port not available";

/// How often it is started anew for that.
const STARTS: usize = 5;

/// How long a page may take to show what it is about.
const LOADS_WITHIN: Duration = Duration::from_secs(30);

/// Runs before any script of a page, and collects what must never happen.
const WATCH: &str = "
    window.faults = [];
    addEventListener('securitypolicyviolation', (e) =>
        faults.push(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
    addEventListener('error', (e) => faults.push(`error: ${e.message ?? e.target?.src}`), true);
    addEventListener('unhandledrejection', (e) => faults.push(`rejection: ${e.reason}`));
";

/// A window of the browser on the pages of one orchestrator.
pub(super) struct Browser {
    pub(super) client: Client,
    /// Where chromedriver takes commands of this session.
    session: String,
    http: reqwest::Client,
    base_url: String,
}

/// Chromedriver; its group ends with it.
struct Driver {
    child: Child,
    port: u16,
    /// Kept open, so that chromedriver can go on printing.
    _output: Lines<BufReader<ChildStdout>>,
}

/// Runs a test in a browser. Where there is none it prints the reason and returns, or panics when
/// `CI` is set.
pub(super) async fn in_browser(cluster: &Cluster, test: impl AsyncFnOnce(&Browser)) {
    in_window(cluster.orchestrator.base_url(), 1280, 900, test).await;
}

/// The same in a window of another size.
pub(super) async fn in_window(
    base_url: &str,
    width: u32,
    height: u32,
    test: impl AsyncFnOnce(&Browser),
) {
    let Some(driver) = Driver::start().await else { return };
    let browser = Browser::open(&driver, base_url).await;
    browser.resize(width, height).await;
    let ended = AssertUnwindSafe(test(&browser)).catch_unwind().await;
    // A session that is not deleted leaves a browser behind.
    let closed = browser.client.close().await;
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
    closed.expect("delete the session");
}

// === impl Driver ===

impl Driver {
    async fn start() -> Option<Self> {
        let mut said = String::new();
        for _ in 0..STARTS {
            let (child, mut output) = spawn()?;
            let port = timeout(STARTS_WITHIN, listening(&mut output)).await;
            match port.expect("chromedriver listens in time") {
                Ok(port) => return Some(Self { child, port, _output: output }),
                Err(last) => said = last,
            }
            if !said.contains(PORT_TAKEN) {
                break;
            }
        }
        panic!("chromedriver ended before it listened:\n{said}");
    }
}

fn spawn() -> Option<(Child, Lines<BufReader<ChildStdout>>)> {
    let program = std::env::var_os(DRIVER_VARIABLE)
        .map_or_else(|| PathBuf::from("chromedriver"), PathBuf::from);
    let started = Command::new(&program)
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    match started {
        Ok(mut child) => {
            let output = child.stdout.take().expect("a pipe");
            Some((child, BufReader::new(output).lines()))
        }
        Err(error) => {
            let missing = format!(
                "cannot run '{}' ({error}): install the packages chromium and chromium-driver, or \
                 set {DRIVER_VARIABLE} and {BROWSER_VARIABLE}",
                program.display()
            );
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            None
        }
    }
}

/// The port, from what chromedriver prints; all of that, if it ends.
async fn listening(output: &mut Lines<BufReader<ChildStdout>>) -> Result<u16, String> {
    let mut said = String::new();
    while let Some(line) = output.next_line().await.expect("read what chromedriver prints") {
        if let Some((_, port)) = line.split_once(LISTENS) {
            return Ok(port.trim_end_matches('.').parse().expect("a port"));
        }
        let _ = writeln!(said, "{line}");
    }
    Err(said)
}

impl Drop for Driver {
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

// === impl Browser ===

impl Browser {
    async fn open(driver: &Driver, base_url: &str) -> Self {
        let mut options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        });
        if let Some(browser) = std::env::var_os(BROWSER_VARIABLE) {
            options["binary"] = json!(browser.to_string_lossy());
        }
        // The CA of a cluster that serves TLS is in no browser.
        let capabilities = json!({ "goog:chromeOptions": options, "acceptInsecureCerts": true });
        let capabilities = capabilities.as_object().expect("an object").clone();
        let url = format!("http://127.0.0.1:{}", driver.port);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&url)
            .await
            .expect("start a browser");
        let id = client.session_id().await.expect("ask for the session").expect("a session");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let session = format!("{url}/session/{id}");
        let browser = Self { client, session, http, base_url: base_url.to_owned() };
        let watch = json!({ "source": WATCH });
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", watch).await;
        browser
    }

    /// A command of the browser's own protocol, which WebDriver lacks.
    pub(super) async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let response = self
            .http
            .post(format!("{}/goog/cdp/execute", self.session))
            .json(&json!({ "cmd": command, "params": parameters }))
            .send()
            .await
            .expect("reach chromedriver");
        let answer: Value = response.json().await.expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{command}: {answer}");
        answer["value"].clone()
    }

    pub(super) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Opens a path and waits until the page shows what it is about.
    pub(super) async fn visit(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.base_url)).await.expect("open the page");
        self.settled().await;
    }

    /// Waits until nothing of the page loads any more.
    pub(super) async fn settled(&self) {
        let ready = "document.querySelector('main h1') !== null \
            && document.querySelector('main .loading') === null";
        self.wait_for("the page is there", ready).await;
    }

    /// The value of an expression.
    pub(super) async fn value(&self, expression: &str) -> Value {
        self.client
            .execute(&format!("return ({expression});"), Vec::new())
            .await
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Everything that the page shows.
    pub(super) async fn text(&self) -> String {
        self.value("document.body.innerText").await.as_str().expect("text").to_owned()
    }

    pub(super) async fn wait_for(&self, what: &str, condition: &str) {
        eventually_within(LOADS_WITHIN, what, async || match self.value(condition).await {
            Value::Bool(true) => Ok(()),
            other => Err(format!("{condition} is {other}; the page:\n{}", self.text().await)),
        })
        .await;
    }

    pub(super) async fn wait_for_text(&self, text: &str) {
        let condition = format!("document.body.innerText.includes({})", json!(text));
        self.wait_for(&format!("the page shows '{text}'"), &condition).await;
    }

    /// Clicks the link or button with this text. One that is drawn anew in the same moment is found
    /// again.
    pub(super) async fn click(&self, text: &str) {
        let path = format!("//*[self::a or self::button][normalize-space()=\"{text}\"]");
        eventually_within(LOADS_WITHIN, &format!("'{text}' is clicked"), async || {
            let element = self.client.find(Locator::XPath(&path)).await;
            element
                .map_err(|error| error.to_string())?
                .click()
                .await
                .map_err(|error| error.to_string())
        })
        .await;
    }

    /// Types into whatever has the focus.
    pub(super) async fn press(&self, keys: &str) {
        let element = self.client.active_element().await.expect("an element has the focus");
        element.send_keys(keys).await.expect("type");
    }

    /// Fails if a page broke its policy or threw an error.
    pub(super) async fn assert_no_fault(&self, page: &str) {
        let faults = self.value("window.faults").await;
        assert_eq!(faults, json!([]), "{page}");
    }
}
