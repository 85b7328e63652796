//! The commands of `docs/high-availability.md`, on machines that are namespaces of this one.
//!
//! Each has its own `/etc`, `/var/lib` and `/var/backups`; all share one network. In place of
//! `systemctl` and `sudo` are scripts that start the same programs with the same settings.

mod machines;

use std::fs;
use std::path::Path;

use self::machines::{Machines, root};

/// How a block says on which machine it runs.
const ON: &str = "# On ";

/// A block of the page.
#[derive(Debug)]
struct Block {
    section: String,
    language: String,
    /// What follows "On" in its first line.
    place: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let page = fs::read_to_string(root().join("docs/high-availability.md")).expect("the page");
    let (mut blocks, mut section) = (Vec::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix('#') {
            title.trim_start_matches('#').trim().clone_into(&mut section);
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        if !["sh", "toml"].contains(&language) {
            continue;
        }
        let place = text.first().and_then(|line| line.strip_prefix(ON));
        let place = place.unwrap_or_else(|| panic!("a block says where it runs: {text:?}"));
        blocks.push(Block {
            section: section.clone(),
            language: language.to_owned(),
            place: place.to_owned(),
            text: format!("{}\n", text.join("\n")),
        });
    }
    assert!(blocks.len() > 10, "blocks are missing: {blocks:#?}");
    blocks
}

fn of<'a>(blocks: &'a [Block], section: &'a str) -> impl Iterator<Item = &'a Block> {
    blocks.iter().filter(move |block| block.section == section)
}

/// Does what a block says.
fn follow(machines: &Machines, block: &Block) {
    let is_on = |name: &str| block.place.split([' ', ',', ':', ';']).any(|word| word == name);
    if block.language == "toml" {
        let path = block.place.split([':', ';']).nth(1).expect("the file is named").trim();
        match is_on("node") {
            true => machines.write("node", path, &block.text),
            false => {
                machines.write("a", path, &block.text);
                let of_b = block.text.replace("10.0.0.11", "10.0.0.12");
                machines.write("b", path, &of_b.replace("a.internal", "b.internal"));
            }
        }
        return;
    }
    // Of "on b, then on a", b is the first.
    let mut names: Vec<_> = ["db", "a", "b"].into_iter().filter(|name| is_on(name)).collect();
    let copies = block.place.contains("copy the file");
    if copies {
        names.truncate(1);
    }
    if block.place.starts_with('b') {
        names.reverse();
    }
    assert!(!names.is_empty(), "{block:?}");
    for name in names {
        machines.run(name, &block.text);
    }
}

/// Both orchestrators serve, and either one goes on without the other.
fn is_a_working_pair(machines: &Machines) {
    for (killed, other) in [("a", "b"), ("b", "a")] {
        machines.run("a", "jobctl node list | grep -q 'node-1.*Connected'");
        machines.kill(killed);
        machines
            .run(other, "until jobctl node list | grep -q 'node-1.*Connected'; do sleep 0.2; done");
        machines.run(killed, "sudo systemctl start orchestrator");
        let health = "until orchestrator --health --config /etc/orchestrator/orchestrator.toml";
        machines.run(killed, &format!("{health}; do sleep 0.2; done"));
    }
}

#[test]
fn the_commands_make_a_working_pair() {
    let Some(machines) = Machines::start() else { return };
    for block in blocks().iter().filter(|block| block.section != "From SQLite") {
        follow(&machines, block);
        if block.place.contains("node") {
            machines.run("a", "(umask 077 && jobctl node token --ttl 1h > token)");
            machines.run("node", "sudo systemctl start compute-agent");
            machines.run(
                "a",
                "until jobctl node list | grep -q 'node-1.*Connected'; do sleep 0.2; done",
            );
        }
    }
    is_a_working_pair(&machines);
}

#[test]
fn one_orchestrator_with_sqlite_becomes_a_pair() {
    let Some(machines) = Machines::start() else { return };
    let blocks = blocks();
    of(&blocks, "The database").for_each(|block| follow(&machines, block));
    let file = Path::new("/etc/orchestrator/orchestrator.toml");
    machines.write("a", &file.display().to_string(), "listen = \"10.0.0.11:1234\"\n");
    machines.run(
        "a",
        "sudo systemctl start orchestrator
        until orchestrator --health --config /etc/orchestrator/orchestrator.toml; do sleep 0.2; done
        jobctl login --url https://10.0.0.11:1234 --token-file /var/lib/orchestrator/admin.token
        jobctl namespace put from-sqlite",
    );
    of(&blocks, "The orchestrators")
        .filter(|it| it.language == "toml")
        .for_each(|it| follow(&machines, it));
    of(&blocks, "From SQLite").for_each(|block| follow(&machines, block));
    machines.run(
        "a",
        "until orchestrator --health --config /etc/orchestrator/orchestrator.toml; do sleep 0.2; done
        jobctl namespace list | grep from-sqlite",
    );
    let key = "cp /var/lib/orchestrator/cluster.key .";
    machines.run("a", key);
    let install = of(&blocks, "The orchestrators").find(|block| block.place.starts_with("a and b"));
    machines.run("b", &install.expect("the key is installed").text);
    machines.run("b", "sudo systemctl enable --now orchestrator
        until orchestrator --health --config /etc/orchestrator/orchestrator.toml; do sleep 0.2; done");
    machines.kill("a");
    machines.run(
        "b",
        "export JOBCTL_URL=https://10.0.0.11:1234,https://10.0.0.12:1234
        until jobctl namespace list | grep from-sqlite; do sleep 0.2; done",
    );
}
