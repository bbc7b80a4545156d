"""The helper for tests in TypeScript, under each of its runners, and what it must not let pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from tests.examples.npm import needs_npm, npm_workplace, packages_of
from tests.examples.workplaces import EXAMPLES, Workplace
from tests.harness.emulators import control, server

EXAMPLE = EXAMPLES / "vitest"
IMPORT = 'import { expect, test } from "vitest";'
JEST = {
    "globalSetup": "./emulator.ts",
    "testTimeout": 30_000,
    "transform": {
        r"\.ts$": [
            "babel-jest",
            {"presets": ["@babel/preset-typescript"], "plugins": ["@babel/plugin-transform-modules-commonjs"]},
        ]
    },
}
# On a machine of two cores each of them would take one file after the other.
WORKERS = "3"
NODE_TEST = ("node", "--import", "tsx", "--test", "--test-reporter=tap")


def place(factory: pytest.TempPathFactory, name: str, imports: str = IMPORT) -> Workplace:
    """A copy of the example whose tests are of another runner."""
    made = npm_workplace(factory, "vitest", name)
    for file in made.folder.glob("*.test.ts"):
        assert IMPORT in file.read_text()
        file.write_text(file.read_text().replace(IMPORT, imports))
    return made


def of_node_test(factory: pytest.TempPathFactory, name: str) -> Workplace:
    return place(factory, name, 'import { test } from "node:test";\nimport { expect } from "expect";')


def run_side_by_side(spans: Iterable[tuple[float, float]]) -> bool:
    """Whether some of these began before another one had ended; each is a beginning and an end."""
    ordered = sorted(spans)
    return any(later[0] < earlier[1] for earlier, later in pairwise(ordered))


def assert_all_passed(report: Any) -> None:
    """24 tests in three files that ran at the same time, as vitest and jest report them."""
    files = report["testResults"]
    assert (len(files), report["numPassedTests"], report["numTotalTests"]) == (3, 24, 24)
    assert run_side_by_side((each["startTime"], each["endTime"]) for each in files), files


def test_the_helper_is_short() -> None:
    assert len((EXAMPLE / "emulator.ts").read_text().splitlines()) <= 120


@pytest.mark.slow
@needs_npm
def test_its_tests_pass_in_vitest(tmp_path_factory: pytest.TempPathFactory) -> None:
    # The server that the helper starts has the control token too.
    command = ("npm", "test", "--", "--reporter=json", f"--maxWorkers={WORKERS}")
    output = place(tmp_path_factory, "of-vitest").run(*command, timeout_s=240, EMULATOR_CONTROL_TOKEN="secret")
    assert_all_passed(json.loads(output[output.index("\n{") :]))


@pytest.mark.slow
@needs_npm
def test_its_tests_pass_in_jest(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = place(tmp_path_factory, "of-jest", 'import { expect, test } from "@jest/globals";')
    (made.folder / "jest.config.json").write_text(json.dumps(JEST))
    with server(dialect="upstash") as emulator:
        command = ("npx", "jest", "--json", "--silent", f"--maxWorkers={WORKERS}")
        assert_all_passed(json.loads(made.run(*command, timeout_s=240, EMULATOR_URL=emulator.url)))


@pytest.mark.slow
@needs_npm
def test_its_tests_pass_in_node_test(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = of_node_test(tmp_path_factory, "of-node-test")
    files = [file.name for file in made.folder.glob("*.test.ts")]
    for name in files:
        # It has a process for each file, and tells its lifetime nowhere.
        with (made.folder / name).open("a") as file:
            file.write(SPAN)
    with server(dialect="upstash") as emulator:
        output = made.run(*NODE_TEST, f"--test-concurrency={WORKERS}", *files, timeout_s=240, EMULATOR_URL=emulator.url)
    assert re.findall(r"^# (?:tests|pass) (\d+)$", output, re.MULTILINE) == ["24", "24"]
    spans = [(float(began), float(ended)) for began, ended in re.findall(r"lived from ([\d.]+) to ([\d.]+)", output)]
    assert len(spans) == 3
    assert run_side_by_side(spans), spans


@pytest.mark.slow
@needs_npm
def test_its_types_are_those_of_the_contract(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = place(tmp_path_factory, "types")
    before = (made.folder / "control.d.ts").read_text()
    made.run("npm", "run", "types", timeout_s=120)
    again = (made.folder / "control.d.ts").read_text()
    assert again == before, "the control contract has changed: npm install && npm run types in examples/vitest"
    made.run("npm", "run", "check", timeout_s=120)


SPAN = """
import { after } from "node:test";
after(() => console.log(`lived from ${performance.timeOrigin} to ${Date.now()}`));
"""
WRONG = """
import { test } from "node:test";
import { expect } from "expect";
import { inWorld } from "./emulator.ts";
import { ADA, APP, begin } from "./setup.ts";

const publish = (world: any, destination: string, headers = {}) =>
  fetch(`${world.env.QSTASH_URL}/v2/publish/${destination}`, {
    method: "POST", headers: { Authorization: `Bearer ${world.env.QSTASH_TOKEN}`, ...headers },
  });

test("a failed assertion", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await post("/start/trial", { email: ADA });
  await world.advance("29d");
  expect(mails).toEqual(["Your trial is over."]);
}));

test("an assertion in a step", inWorld(async (world) => {
  let times = 0;
  const { mails, post } = await begin(world, { sendMail: async () => expect(++times).toBe(2) });
  await post("/start/trial", { email: ADA });
  await world.advance("31d");
}));

test("a run that fails for good", inWorld(async (world) => {
  const { post } = await begin(world, { sendMail: async () => { throw new Error("no mail server"); } });
  await post("/start/trial", { email: ADA });
  await world.advance("40d");
}));

test("a workflow that is none", inWorld(async (world) => {
  await world.mount("https://other.test", (_request, response) => void response.end("fine"));
  const { Client } = await import("@upstash/workflow");
  const client = new Client({ baseUrl: world.env.QSTASH_URL, token: world.env.QSTASH_TOKEN });
  await client.trigger({ url: "https://other.test/flow" });
  await world.advance("1s");
}));

test("a refused call", inWorld(async (world) => {
  await publish(world, "https://app.example.com/start", { "Upstash-Delay": "tomorrow" });
}));

test("a destination that nobody answers for", inWorld(async (world) => {
  await begin(world);
  await publish(world, "http://app.example.com/jobs");
}));

test("an app that is not there", inWorld(async (world) => {
  await publish(world, "http://127.0.0.1:9/jobs", { "Upstash-Retries": "0" });
}));

test("each is allowed where it is meant", inWorld(async (world) => {
  await publish(world, "https://app.example.com/start", { "Upstash-Delay": "tomorrow" });
  await publish(world, "https://app.example.com/jobs");
  await publish(world, "http://127.0.0.1:9/jobs", { "Upstash-Retries": "0" });
  await world.advance("1s");
}, { allow: ["refused", "captured", "failed"] }));
"""
# What each of them has to say.
SAID = {
    "a failed assertion": ["waits", "a subscription", "2026-01-01T00:00:00.000Z"],
    "an assertion in a step": ["all assertions hold, but", "failed", "toBe"],
    "a run that fails for good": ["all assertions hold, but", "no mail server"],
    "a workflow that is none": ["all assertions hold, but", "detected a non-workflow destination"],
    "a refused call": ["all assertions hold, but", "refused POST", "tomorrow"],
    "a destination that nobody answers for": ["all assertions hold, but", "captured", "http://app.example.com/jobs"],
    "an app that is not there": ["all assertions hold, but", "failed", "http://127.0.0.1:9/jobs"],
}


@pytest.mark.slow
@needs_npm
def test_what_is_wrong_fails_and_says_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = of_node_test(tmp_path_factory, "wrong")
    (made.folder / "wrong.test.ts").write_text(WRONG)
    with server(dialect="upstash") as emulator:
        output = made.run(*NODE_TEST, "wrong.test.ts", timeout_s=120, expect=1, EMULATOR_URL=emulator.url)
        # Each has left nothing behind.
        assert [world["id"] for world in control(emulator, "GET", "/worlds")["worlds"]] == ["default"]
    results = re.split(r"^# Subtest: ", output, flags=re.MULTILINE)[1:]
    failed = {part.splitlines()[0]: part for part in results if re.search(r"^not ok", part, re.MULTILINE)}
    assert list(failed) == list(SAID)
    for name, texts in SAID.items():
        assert [text for text in texts if text not in failed[name]] == [], failed[name]


@pytest.mark.parametrize("example", ["express", "nextjs", "vitest", "workflow"])
def test_every_package_that_is_imported_is_in_package_json(example: str) -> None:
    """They are tested in one folder, where the packages of the others would be found too."""
    folder = EXAMPLES / example
    files = [
        file for file in folder.rglob("*") if file.suffix in (".js", ".ts", ".tsx") and "node_modules" not in str(file)
    ]
    texts = [file.read_text() for file in files if ".next" not in file.parts and file.name != "control.d.ts"]
    found = {name for text in texts for name in re.findall(r'from "((?:@[^/"]+/)?[^/".]+)', text)}
    assert found
    assert {name for name in found if not name.startswith("node:")} <= {*packages_of(example)}
