// Starts `relay-opt lsp`, and shows what its commands answer.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function start() {
  const settings = vscode.workspace.getConfiguration("relay");
  const plugins = settings.get("plugins").flatMap((path) => ["--load-plugin", path]);
  const server = { command: settings.get("path"), args: ["lsp", ...plugins] };
  client = new LanguageClient("relay", "Relay", server, {
    documentSelector: [{ language: "relay" }],
    middleware: { executeCommand },
  });
  return client.start();
}

// The server answers commands with text, which is shown beside the program.
async function executeCommand(command, args, next) {
  if (command === "relay.runPass") {
    return runPass(args[0] ?? {}, next);
  }
  const answer = await next(command, args);
  if (command === "relay.explain") {
    await show(answer, "markdown");
  }
  return answer;
}

async function runPass(request, next) {
  const pass = request.pass ?? (await choosePass(next));
  if (!pass) {
    return;
  }
  try {
    const diff = await next("relay.runPass", [{ ...request, pass }]);
    await show(diff === "" ? `${pass} changes nothing.` : diff, "diff");
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
  }
}

async function choosePass(next) {
  const passes = await next("relay.passes", []);
  const items = passes.map(({ name, doc }) => ({ label: name, detail: doc }));
  const chosen = await vscode.window.showQuickPick(items, { placeHolder: "A pass or pipeline" });
  return chosen?.label;
}

async function show(content, language) {
  const document = await vscode.workspace.openTextDocument({ content, language });
  await vscode.window.showTextDocument(document, vscode.ViewColumn.Beside, true);
}

function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("relay.choosePass", () => {
      const uri = vscode.window.activeTextEditor?.document.uri.toString();
      return uri && vscode.commands.executeCommand("relay.runPass", { uri });
    }),
    vscode.commands.registerCommand("relay.restart", async () => {
      await client?.stop();
      await start();
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("relay")) {
        vscode.commands.executeCommand("relay.restart");
      }
    }),
  );
  return start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
