// ringfence: every shell line of pi is judged and runs inside the sandbox. Written by `ringfence install pi`.
// A hook that fails, is late or says something odd blocks the call, in every mode: interactive, RPC, print and JSON.
import { spawnSync } from "node:child_process";

const PROGRAM = "@PROGRAM@";
const WORDS = @WORDS@;
const TOOLS = new Set(["bash", "read", "write", "edit", "grep", "find", "ls", "powershell"]);

function asked(payload: unknown): any {
  const done = spawnSync(PROGRAM, WORDS, { input: JSON.stringify(payload), encoding: "utf8", timeout: 10000 });
  if (done.error || done.status !== 0) throw new Error(`ringfence: the hook failed: ${done.error ?? done.stderr}`);
  return JSON.parse(done.stdout);
}

export default function (pi: any) {
  pi.on("tool_call", async (event: any, ctx: any) => {
    if (!TOOLS.has(event.toolName)) return;
    try {
      const cwd = ctx?.cwd ?? process.cwd();
      const answer = asked({ hook_event_name: "tool_call", cwd, tool_name: event.toolName, tool_input: event.input });
      if (answer.verdict !== "allow") return { block: true, reason: answer.reason ?? "ringfence: denied" };
      if (!answer.input) return;
      for (const name of Object.keys(event.input)) if (!(name in answer.input)) delete event.input[name];
      Object.assign(event.input, answer.input);
    } catch (error) {
      return { block: true, reason: `ringfence: the hook failed, so the call is denied: ${error}` };
    }
  });
}
