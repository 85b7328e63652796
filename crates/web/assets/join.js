// How a node joins this orchestrator: the lines that start an agent, to copy.

import { quoted } from "./format.js";
import { h } from "./dom.js";
import { command } from "./notes.js";
import { session } from "./session.js";

/** @param {string} token a join token; without one over plain HTTP */
export function agentCommands(token) {
  const lines = [
    `export COMPUTE_AGENT_ORCHESTRATOR=${quoted(location.origin)}`,
    ...(token ? [`export COMPUTE_AGENT_JOIN_TOKEN=${quoted(token)}`] : []),
    "export COMPUTE_AGENT_LISTEN=127.0.0.1:1235",
    "COMPUTE_AGENT_DATA_DIR=~/jobs/node-1 compute-agent",
  ];
  return command(lines.join("\n"), "the commands");
}

/** What to do where no node has joined. */
export function joinCommands() {
  if (location.protocol !== "https:") return agentCommands("");
  return h(
    "p",
    null,
    session.may("operate")
      ? h("a", { class: "button", href: "/access/join-tokens" }, "Join tokens")
      : ["An operator creates a join token for it with ", h("code", null, "jobctl node token"), "."],
  );
}
