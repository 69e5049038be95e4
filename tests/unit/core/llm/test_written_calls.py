from __future__ import annotations

import pytest

from vibe.core.llm.written_calls import written_call

OFFERED = {"read_file", "grep", "bash"}
PARAMETER = "parameter"
CALLS = (
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>',
    'Let me look.\n<tool_call>{"name":"grep","arguments":{}}</tool_call>\n<tool_call>{"name":"read_file","arguments":{}}</tool_call>',
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}',
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt}\n</tool_call>',
    '<function=read_file>{"path":"a"}</function>',
    "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    '[TOOL_CALLS][{"name":"grep","arguments":{"p":"x"}}]',
    '[TOOL_CALLS] [{"name": "grep", "arguments": {"p":"x"}, "id":"123456789"}]',
    '[TOOL_CALLS]grep[ARGS]{"p":"x"}',
    '[TOOL_CALLS]grep[CALL_ID]abc[ARGS]{"p":"x"}',
    '[TOOL_CALLS]grep{"p":"x"}',
    '<|python_tag|>{"name":"bash","parameters":{"command":"ls"}}',
    '<|python_tag|>{"type":"function","name":"bash","parameters":{"command":"ls"}}<|eom_id|>',
    '<|python_tag|>bash.call(command="ls")',
    '```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```',
    '{"name": "read_file", "arguments": {"path": "a"}}',
    '{"name": "read_file", "parameters": {"path": "a"}}',
    '[{"name":"grep","arguments":{}}]',
    '```tool_call\n{"name":"grep","arguments":{}}\n```',
    '{"type":"function","function":{"name":"grep","arguments":"{}"}}',
    '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n</invoke>\n</function_calls>',
    '<invoke name="bash"><parameter name="command">ls</parameter></invoke>',
    'I will.\n<x:invoke name="bash">\n<x:parameter name="c">ls</x:parameter>\n</x:invoke>\n</x:function_calls>',
    'functions.read_file:0{"path": "a"}',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.grep:0<|tool_call_argument_begin|>{"p":"x"}<|tool_call_end|><|tool_calls_section_end|>',
    '<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>read_file\n```json\n{"path":"a"}\n```<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>',
    '<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>read_file<\uff5ctool\u2581sep\uff5c>{"path":"a"}<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>',
    '<|channel|>commentary to=functions.grep <|constrain|>json<|message|>{"p":"x"}<|call|>',
    'commentary to=functions.grep json{"p":"x"}',
    '<|start|>assistant<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command":"ls"}',
    "[read_file(path='a')]",
    "[grep(pattern='x'), read_file(path='a')]",
    "```tool_code\nread_file(path='a')\n```",
    "read_file(path='a')",
    "```tool_code\nprint(read_file(path='a'))\n```",
    '{"tool": "bash", "args": {"command": "ls"}}',
    '{"tool_calls": [{"name":"grep","arguments":{}}]}',
    '<tool_call>{"function": {"name": "grep", "arguments": {}}}</tool_call>',
    '**Action**\n\n<tool_call>\n{"name":"bash","arguments":{"command":"cat <<E\\n}\\nE"}}\n</tool_call>\n\n',
    '<|tool_call|>{"name":"grep","arguments":{}}',
    '<|tool_call|>[{"name":"grep","arguments":{}}]<|/tool_call|>',
    '<tool_calls>[{"name":"grep","arguments":{}}]</tool_calls>',
    '<|tool_call>call:grep{pattern:<|"|>x<|"|>}<tool_call|>',
    '<|action_start|><|plugin|>{"name":"grep","parameters":{}}<|action_end|>',
    'Action: grep\nAction Input: {"pattern":"x"}',
)
WORDS = (
    "Done.",
    'A call looks like `<tool_call>{"name":"grep","arguments":{}}</tool_call>`.',
    'Use:\n```json\n{"name": "grep", "arguments": {}}\n```\nThat runs it.',
    'Example:\n```json\n{"name": "grep", "arguments": {}}\n```',
    '<tool_call>{"name":"grep","arguments":{}}</tool_call> is what Qwen writes.',
    '<tool_call>{"name":"other","arguments":{}}</tool_call>',
    '[{"name":"grep","description":"finds","parameters":{}}]',
    '{"name":"grep"}',
    "[1, 2]",
    '{"a": 1}',
    "null",
    "I called grep(pattern) before.",
    "The tools are [read_file, grep].",
    'print("x")',
    "foo(a=1)",
    "[link](http://x)",
    'Use [TOOL_CALLS] [{"name": "grep"}] tokens (see docs)',
    'The `to=functions.grep` header is followed by JSON such as {"a":1} in the message.',
    "grep",
    "grep()is a call",
    "read_file opens (a file)",
    'The file says:\n\n```xml\n<tool_call>\n{"name": "grep", "arguments": {}}\n</tool_call>\n```',
    "",
)


@pytest.mark.parametrize("text", CALLS)
def test_a_call_is_known_in_the_words_of_every_family_of_models(text: str) -> None:
    assert written_call(text, OFFERED) in OFFERED
    assert not written_call(text, {"other_tool"})


@pytest.mark.parametrize("text", WORDS)
def test_words_about_calls_and_answers_in_json_are_none(text: str) -> None:
    assert not written_call(text, OFFERED)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 20_000,
        "<function=grep>" * 20_000,
        "to=functions.grep " * 20_000,
        '<tool_call>{"name":"x"' * 5_000,
        "[" * 100_000,
        "grep(" * 20_000,
        "x" * 500_000,
    ],
    ids=len,
)
def test_a_long_answer_is_looked_through_in_no_time(text: str) -> None:
    assert not written_call(text, {"none"})
