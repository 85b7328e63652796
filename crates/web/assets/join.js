// The lines that join a node to this orchestrator, to copy.

import { command } from "./notes.js";
import { quoted } from "./format.js";

export function joinCommands() {
  return command(
    `export COMPUTE_AGENT_ORCHESTRATOR=${
      quoted(location.origin)
    }\nexport COMPUTE_AGENT_LISTEN=127.0.0.1:1235\nCOMPUTE_AGENT_DATA_DIR=~/jobs/node-1 compute-agent`,
    "the commands",
  );
}
