// ringfence: every shell line of OpenCode is judged and runs inside the sandbox. Written by `ringfence install opencode`.
// A hook that fails, is late or says something odd throws, and OpenCode then does not make the call.
import { spawnSync } from "node:child_process";

const PROGRAM = "@PROGRAM@";
const WORDS = @WORDS@;
const TOOLS = new Set(["bash", "shell", "read", "write", "edit", "patch", "apply_patch", "multiedit", "glob", "grep", "list", "lsp", "batch"]);

function asked(payload) {
  const done = spawnSync(PROGRAM, WORDS, { input: JSON.stringify(payload), encoding: "utf8", timeout: 10000 });
  if (done.error || done.status !== 0) throw new Error(`ringfence: the hook failed: ${done.error ?? done.stderr}`);
  const answer = JSON.parse(done.stdout);
  if (answer.verdict !== "allow") throw new Error(answer.reason ?? "ringfence: denied");
  return answer.input;
}

export const Ringfence = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    if (!TOOLS.has(input.tool)) return;
    const given = output.args ?? {};
    // Not where the call says it begins: that is the model's word, and would choose the workspace.
    const made = asked({ hook_event_name: "tool.execute.before", cwd: directory, tool_name: input.tool, tool_input: given });
    if (!made) return;
    for (const name of Object.keys(given)) if (!(name in made)) delete given[name];
    Object.assign(given, made);
  },
});
