use super::*;

fn render_with(source: &str, messages: &[Message], options: &RenderOptions) -> Result<Rendered> {
    let mut variables = Map::new();
    variables.insert("bos_token".into(), "<s>".into());
    ChatTemplate::new(source, variables)?.render(messages, options)
}

fn render(source: &str, kwargs_json: &str) -> String {
    let options = RenderOptions { kwargs_json, now_s: Some(1_700_000_000), ..Default::default() };
    render_with(source, &[], &options).unwrap_or_else(|e| panic!("{source}: {e}")).text
}

const CHATML: &str = "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

#[test]
fn a_conversation() {
    let messages = [Message { role: "user", content: "Hi", ..Default::default() }];
    let options = RenderOptions { add_generation_prompt: true, ..Default::default() };
    let text = render_with(CHATML, &messages, &options).unwrap().text;
    assert_eq!(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    let text = render_with(CHATML, &messages, &RenderOptions::default()).unwrap().text;
    assert_eq!(text, "<|im_start|>user\nHi<|im_end|>\n");
}

#[test]
fn values_print_as_in_python() {
    // Each expected text was printed by Jinja2 3.1 with the filters of transformers.
    let cases = [
        ("{{ x }}", r#"{"x": [1, 2.0, "a'b", null, true, {"k": 1e20}]}"#, r#"[1, 2.0, "a'b", None, True, {'k': 1e+20}]"#),
        ("{{ x }}", r#"{"x": null}"#, "None"),
        ("{{ missing }}|", "", "|"),
        ("{{ x|tojson }}", r#"{"x": {"a": "<é'>", "b": [1.0, true, null]}}"#, r#"{"a": "<é'>", "b": [1.0, true, null]}"#),
        ("{{ x|tojson(ensure_ascii=True) }}", r#"{"x": "é👋"}"#, r#""\u00e9\ud83d\udc4b""#),
        ("{{ x|tojson(indent=2) }}", r#"{"x": {"a": [1, 2], "b": {}}}"#, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}"),
        ("{{ x|tojson(separators=(',', ':')) }}", r#"{"x": {"a": 1, "b": 2}}"#, r#"{"a":1,"b":2}"#),
        ("{{ x|tojson(sort_keys=true) }}", r#"{"x": {"b": 1, "a": 2}}"#, r#"{"a": 2, "b": 1}"#),
        ("{{ x|string|length }}", r#"{"x": 1.5}"#, "3"),
        ("{{ 'a b  c'.rsplit(' ', 1) }}", "", "['a b ', 'c']"),
        ("{{ ' a b  c '.rsplit(none, 1) }}", "", "[' a b', 'c']"),
        ("{{ 'k=v=w'.partition('=') }}", "", "('k', '=', 'v=w')"),
        ("{{ 'k=v=w'.rpartition('=')[2] }}", "", "w"),
        ("{{ 'prefix_x'.removeprefix('prefix_').removesuffix('y') }}", "", "x"),
        ("{{ 'abc'.index('c') }}{{ '-7'.zfill(4) }}{{ 'a'.ljust(3) }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.rjust(2) }}", "", "2-007a  |**ab*| a"),
        ("{{ 'a' is sequence }}{{ 'a' is iterable }}{{ x is sequence }}{{ 3 is iterable }}{{ none is sequence }}", r#"{"x": {}}"#, "TrueTrueTrueFalseFalse"),
        (r"{{ '{\n'|indent(4, first=True) }}|{{ 'a\n\nb'|indent }}|{{ 'a\n\nb'|indent(1, blank=true) }}", "", "    {\n|a\n\n    b|a\n \n b"),
        ("{{ strftime_now('%Y-%m') }}", "", "2023-11"),
        ("{{ bos_token }}", "", "<s>"),
        ("{{ tools is none }}{{ documents is none }}", "", "TrueTrue"),
        ("  {% if true %}\n  x\n  {% endif %}\ny\n", "", "  x\ny"),
        ("{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "", "02"),
        ("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "", "3"),
        ("{{ messages.role is defined }}", "", "False"),
    ];
    for (source, kwargs, expected) in cases {
        assert_eq!(render(source, kwargs), expected, "{source}");
    }
}

#[test]
fn generation_blocks_are_marked() {
    let source = "{% for m in messages %}{% if m.role == 'assistant' %}A:{%- generation -%} {{ m.content }}!\n{%- endgeneration %}\n{% else %}U:{{ m.content }}\n{% endif %}{% endfor %}";
    let message = |role, content| Message { role, content, ..Default::default() };
    let messages = [message("user", "é"), message("assistant", "one"), message("user", "b"), message("assistant", "two")];
    let rendered = render_with(source, &messages, &RenderOptions::default()).unwrap();
    assert_eq!(rendered.text, "U:é\nA:one!U:b\nA:two!");
    let marked: Vec<&str> = rendered.generation.iter().map(|r| &rendered.text[r.clone()]).collect();
    assert_eq!(marked, ["one!", "two!"]);
    // Without blocks nothing is marked.
    assert!(render_with(CHATML, &messages, &RenderOptions::default()).unwrap().generation.is_empty());
}

#[test]
fn further_fields_and_tools() {
    let message = Message { role: "assistant", content: "", fields_json: r#"{"content": null, "tool_calls": [{"name": "f"}]}"# };
    let options = RenderOptions { tools_json: r#"[{"a": 1}]"#, ..Default::default() };
    let source = "{{ messages[0].content is none }}{{ messages[0].tool_calls[0].name }}{{ tools|tojson }}";
    assert_eq!(render_with(source, &[message], &options).unwrap().text, r#"Truef[{"a": 1}]"#);
}

#[test]
fn errors_are_one_clear_line() {
    let failure = |source: &str, options: RenderOptions| {
        render_with(source, &[], &options).err().unwrap_or_else(|| panic!("{source} rendered"))
    };
    let none = RenderOptions::default;
    let raised = failure("{% macro m() %}{{ raise_exception('Roles must\nalternate') }}{% endmacro %}{{ m() }}", none());
    assert_eq!((raised.code, raised.message.as_str()), (Code::InvalidArgument, "Roles must alternate"));

    let syntax = failure("a\n{% if %}", none());
    assert_eq!(syntax.code, Code::InvalidArtifact);
    assert!(syntax.message.contains("line 2"), "{syntax}");

    let arguments = [
        RenderOptions { tools_json: "{}", ..none() },
        RenderOptions { tools_json: "[", ..none() },
        RenderOptions { kwargs_json: "[]", ..none() },
        RenderOptions { kwargs_json: r#"{"messages": []}"#, ..none() },
    ];
    for options in arguments {
        assert_eq!(failure("x", options).code, Code::InvalidArgument);
    }
    assert_eq!(failure("{{ messages[0].role.x }}", none()).code, Code::InvalidArgument);
}

#[test]
fn hostile_templates_end() {
    let code = |source: &str| render_with(source, &[], &RenderOptions::default()).err().map(|e| e.code);
    let loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i %}{% endfor %}{% endfor %}";
    assert_eq!(code(loops), Some(Code::ResourceExhausted));
    let doubling = "{% set ns = namespace(x='abcdefgh') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
    assert_eq!(code(doubling), Some(Code::ResourceExhausted));
    assert!(code("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").is_some());
    assert!(code(&"(".repeat(100_000)).is_none());
    assert!(code(&format!("{{{{ {} }}}}", "(".repeat(100_000))).is_some());
    assert!(code(&format!("{{{{ {}{} }}}}", "[".repeat(100_000), "]".repeat(100_000))).is_some());
    assert!(code(&"{% if true %}".repeat(20_000)).is_some());
    assert_eq!(code(&"x".repeat(MAX_SOURCE_BYTES + 1)), Some(Code::InvalidArtifact));
    assert!(code("{{ 'a'.ljust(9999999999) }}").is_some());
    assert!(code("{{ 'x' * 9999999999 }}").is_some());
}
