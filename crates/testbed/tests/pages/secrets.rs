//! What owners do on the page of secrets and credentials, and what it shows to others.

use serde_json::json;

use super::access::{fill, offers};
use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::administration::{Protected, by_line, click_labelled};
use super::browser::{Browser, in_browser};
use super::guarded::{sign_in, sign_out};
use super::terminal::{PROGRAMS, copied, permit_clipboard};

pub(super) const SECRETS: &str = "/access/secrets";

/// Text that shells and JSON would like to read as theirs.
const VALUE: &str = "it's \"5 $\" a b";

/// A password that needs no escape in JSON.
const PASSWORD: &str = "it's-5$a";

async fn has_row(browser: &Browser, table: &str, text: &str) -> bool {
    let rows = format!("document.querySelector('[aria-label={table}] tbody').innerText");
    browser.value(&rows).await.as_str().expect("rows").contains(text)
}

#[tokio::test]
async fn an_owner_sets_what_jobs_name_and_a_submitter_sees_names_alone() {
    let protected = Protected::start().await;
    let (owner, submitter, viewer) = (
        protected.token("lead", "owner").await,
        protected.token("build server", "submitter").await,
        protected.token("screen", "viewer").await,
    );
    let axe = axe();
    let axe = axe.as_deref();
    in_browser(&protected.cluster, async |browser| {
        browser.visit(SECRETS).await;
        sign_in(browser, &owner).await;
        browser.wait_for_text("No secrets").await;
        browser.wait_for_text("No credentials").await;
        browser.click("Set a secret…").await;
        fill(browser, "Name", "no name").await;
        fill(browser, "Value", VALUE).await;
        browser.click("Set").await;
        // The service objects, and the dialog stays with what was typed.
        browser.wait_for_text("must have 1 to 63 letters").await;
        fill(browser, "Name", "\u{e009}a\u{e000}db").await;
        browser.click("Set").await;
        browser.wait_for_text("Secret db is set").await;
        click_labelled(browser, "Set db again…").await;
        fill(browser, "Value", "another").await;
        browser.click("Set").await;
        browser
            .wait_for(
                "its second version",
                "document.querySelector('[aria-label=Secrets] tbody').textContent.includes('2')",
            )
            .await;
        browser.click("Set credentials…").await;
        fill(browser, "Name", "ghcr").await;
        fill(browser, "Hosts that get the login", "ghcr.io\n*.ghcr.io").await;
        fill(browser, "User name", "ci").await;
        fill(browser, "Password or token", PASSWORD).await;
        for (scheme, width) in [("dark", 360), ("light", 1280)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            assert_accessible(browser, axe, &format!("set-credentials-{scheme}-{width}")).await;
        }
        browser.click("Set").await;
        browser.wait_for_text("Credentials ghcr are set").await;
        browser.wait_for_text("ghcr.io, *.ghcr.io").await;
        for (scheme, width) in [("dark", 360), ("light", 1280)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            assert_accessible(browser, axe, &format!("secrets-{scheme}-{width}")).await;
        }

        sign_out(browser).await;
        sign_in(browser, &submitter).await;
        browser.visit(SECRETS).await;
        browser.wait_for_text("ghcr.io, *.ghcr.io").await;
        assert!(has_row(browser, "Secrets", "db").await);
        for word in ["Set a secret…", "Set…", "Delete…", "Tokens and namespaces"] {
            assert!(!offers(browser, word).await, "a submitter is offered '{word}'");
        }
        sign_out(browser).await;
        sign_in(browser, &viewer).await;
        browser.visit(SECRETS).await;
        browser.wait_for_text("Secrets need the role submitter").await;
        browser.assert_no_fault("secrets").await;
    })
    .await;
}

#[tokio::test]
async fn copied_lines_set_list_and_delete_secrets_and_credentials() {
    let protected = Protected::start().await;
    let secret = protected.terminal().with("SECRET", VALUE);
    let password = protected.terminal().with("SECRET", PASSWORD);
    in_browser(&protected.cluster, async |browser| {
        permit_clipboard(browser).await;
        browser.visit(SECRETS).await;
        sign_in(browser, &protected.admin).await;
        for program in PROGRAMS {
            browser.visit(SECRETS).await;
            browser.wait_for_text("No secrets").await;
            browser.click("Set a secret…").await;
            fill(browser, "Name", "db").await;
            fill(browser, "Value", "typed").await;
            let line = copied(browser, program, "setting the secret").await;
            assert!(!line.contains("typed"), "{line}");
            by_line(browser, &secret, program, "setting the secret").await;
            let list = copied(browser, program, "the list of secrets").await;
            assert!(secret.run(&list).await.contains("db"));

            browser.click("Set credentials…").await;
            fill(browser, "Name", "store").await;
            let choose = "(() => { const type = document.querySelector('dialog [data-path=Type] select'); \
                          type.value = 's3'; type.dispatchEvent(new Event('change')); return true; })()";
            assert_eq!(browser.value(choose).await, json!(true));
            fill(browser, "Hosts that get the login", "*.amazonaws.com").await;
            fill(browser, "Only these buckets", "results").await;
            fill(browser, "ID of the access key", "AKIAEXAMPLE").await;
            by_line(browser, &password, program, "setting the credentials").await;
            let list = copied(browser, program, "the list of credentials").await;
            let printed = password.run(&list).await;
            assert!(printed.contains("store") && printed.contains("*.amazonaws.com"), "{printed}");

            browser.visit(SECRETS).await;
            browser.wait_for_text("bucket results").await;
            for (name, what) in [("db", "Delete the secret"), ("store", "Delete the credentials")] {
                click_labelled(browser, &format!("Delete {name}…")).await;
                by_line(browser, &secret, program, what).await;
            }
        }
        browser.visit(SECRETS).await;
        browser.wait_for_text("No credentials").await;
        browser.assert_no_fault("copies of secrets").await;
    })
    .await;
}
