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
    assert!(code("{{ '{:>9999999999}'.format('a') }}").is_some());
    assert!(code(r"{{ ('\n' * 99999)|indent('x' * 99999) }}").is_some());
    assert!(code("{{ range(9999)|tojson(separators=('x' * 99999, ':')) }}").is_some());
    assert!(code("{{ [[1]]|pprint }}").is_some());
    assert!(code("{{ debug() }}").is_some());
    // A value of few parts that prints as very many.
    let shared = "{% set ns = namespace(l=[]) %}{% for i in range(50) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
    for print in ["{{ ns.l }}", "{{ ns.l|tojson }}", "{{ ns.l|string }}", "{{ raise_exception(ns.l) }}"] {
        assert_eq!(code(&format!("{shared}{print}")), Some(Code::ResourceExhausted), "{print}");
    }
}

#[test]
fn long_expressions_do_not_exhaust_the_stack() {
    // Opening, what repeats, closing, and how often it took to overflow a stack of 8 MB.
    let shapes = [
        ("{{ 1", "~1", " }}", 21_000),
        ("{{ 1", "+1", " }}", 21_000),
        ("{{ x", "+x", " }}", 21_000),
        ("{{ ", "-", "1 }}", 20_000),
        ("{{ ", "not ", "1 }}", 20_000),
        ("{{ a", "()", " }}", 20_000),
        ("{{ a", ".a", " }}", 20_000),
        ("{{ a", "[0]", " }}", 20_000),
        ("{{ 1", "|e", " }}", 32_000),
        ("{{ 1", " and 1", " }}", 20_000),
        ("{{ x", " or x", " }}", 20_000),
        ("{{ 1", " if 1", " }}", 20_000),
        ("{{ 1", " == 1", " }}", 20_000),
        ("{{ 1", " is true", " }}", 20_000),
        ("{% if 0 %}", "{%elif 0%}", "{% endif %}", 20_000),
        ("", "{% if 1 %}", "", 20_000),
    ];
    for (opening, part, closing, n) in shapes {
        let source = |n: usize| format!("{opening}{}{closing}", part.repeat(n));
        let refused = render_with(&source(10 * n), &[], &RenderOptions::default()).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArtifact, "{part}");
        // As long as is accepted, of a source and of a tag: an error or a text, but it ends.
        for limit in [MAX_SOURCE_BYTES, MAX_TAG_BYTES] {
            let longest = (limit - opening.len() - closing.len()) / part.len();
            let _ = render_with(&source(longest), &[], &RenderOptions::default());
        }
    }
}

#[test]
fn nested_values_do_not_exhaust_the_stack() {
    // The most levels for the fuel: many in one expression, two values alike for the comparisons.
    let nest = |name: &str| format!("{}ns.{name}{}", "[".repeat(70), "]".repeat(70));
    let grow = format!(
        "{{% set ns = namespace(l=[], m=[]) %}}{{% for i in range(N) %}}{{% set ns.l = {} %}}TWIN{{% endfor %}}",
        nest("l")
    );
    let twin = format!("{{% set ns.m = {} %}}", nest("m"));
    let alone = grow.replace("TWIN", "").replace('N', "33000");
    let pair = grow.replace("TWIN", &twin).replace('N', "18000");
    for use_alone in ["", "{{ ns.l }}", "{{ ns.l ~ 'a' }}", "{{ ns.l|upper }}", "{{ raise_exception(ns.l) }}"] {
        let _ = render_with(&format!("{alone}{use_alone}"), &[], &RenderOptions::default());
    }
    for use_pair in ["{{ ns.l == ns.m }}", "{{ ns.l < ns.m }}", "{{ {ns.l: 1, ns.m: 2} }}", "{{ ns.l in [ns.m] }}"] {
        let _ = render_with(&format!("{pair}{use_pair}"), &[], &RenderOptions::default());
    }
    let reported = "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l=[ns.l] %}{% endfor %}";
    let text = render_with(&format!("{reported}{{{{ ns.l ~ 'a' }}}}"), &[], &RenderOptions::default()).unwrap().text;
    assert_eq!(text.len(), 200_001);
}

#[test]
fn a_refusal_is_printable_and_short() {
    let source = r#"{{ raise_exception('\x1b[2J' ~ 'x' * 5000) }}"#;
    let refused = render_with(source, &[], &RenderOptions::default()).unwrap_err();
    assert!(refused.message.starts_with("\\x1b[2Jx"), "{refused}");
    assert_eq!(refused.message.chars().count(), 1001);
    assert!(refused.message.ends_with('\u{2026}'));
}

#[test]
fn long_tags_are_refused_wherever_they_hide() {
    let long = format!("{{{{ 1{} }}}}", "+1".repeat(MAX_TAG_BYTES / 2));
    let refused = |source: &str| {
        let error = ChatTemplate::new(source, Map::new()).err().unwrap_or_else(|| panic!("{source} compiled"));
        assert_eq!(error.code, Code::InvalidArtifact);
        assert!(error.message.contains("expected at most"), "{error}");
    };
    refused(&long);
    refused(&format!("\n{{# {{{{ ' #}}{long}"));
    refused(&format!("{{% raw %}}{{{{ \" {{%- endraw -%}}{long}"));
    refused(&format!("{{{{ {{'a': {{'}}}}': 1}}}} }}}}{{{{{{{long}"));
    refused(&long.replace("{{ 1", "{{ '\\'}}' ~ {1: {2: 3}}"));
    refused(&long.replace("{{", "{% set x = ").replace("}}", "%}"));
    // Text, comments, raw blocks and what is in quotes may be long.
    let words = "1+".repeat(MAX_TAG_BYTES);
    assert_eq!(render(&words, ""), words);
    assert_eq!(render(&format!("{{# {words} #}}x"), ""), "x");
    assert_eq!(render(&format!("{{% raw %}}{{{{ {words}{{% endraw %}}"), ""), format!("{{{{ {words}"));
    assert_eq!(render(&format!("{{{{ '{words}' }}}}"), ""), words);
}
