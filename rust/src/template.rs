//! Chat templates: Jinja as `transformers` runs it (`apply_chat_template`), over `minijinja`.
//! A template and the messages are untrusted input, so work and sizes are bounded.

use std::fmt;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use serde_json::{Map, Value as Json};

use crate::error::{Code, Result, TextError};
use crate::{json_dumps, python};

/// Published templates are 1 to 30 kB.
const MAX_SOURCE_BYTES: usize = 128 << 10;
/// Of one `{{ }}` or `{% %}`, without the text in quotes. Folding the constants of an expression takes
/// minijinja quadratic time: 65 ms for this much, 17 s for 64 kB. The longest published one has 1.3 kB.
const MAX_TAG_BYTES: usize = 4 << 10;
/// Bounds a render to about four million instructions or 256 MB of intermediate text
/// (`Environment::set_fuel`). Published templates render a thousand messages of 4 kB with a million,
/// but for the few whose work grows with the square of the messages.
const FUEL: u64 = 4_000_000;
/// minijinja recurses over the syntax tree and over nested values. Neither can be refused there, but
/// both are bounded. A level takes at least one byte of the source and 430 bytes of stack, or 1.5 units
/// of fuel and (measured, in comparisons of lists) 410 bytes, 1.1 GB in all.
const STACK_BYTES: usize = 2 << 30;
const MAX_OUTPUT_BYTES: usize = 64 << 20;

const NAME: &str = "chat";
/// Carries the time of the render to `strftime_now`; not a name a template would use.
const NOW: &str = "__tessera_now_s";
/// Names that the caller's own variables may not take.
const RESERVED: [&str; 4] = ["messages", "tools", "add_generation_prompt", NOW];

/// A compiled template; immutable and safe to share between threads.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Byte ranges of `{% generation %}` bodies in the source as compiled.
    generation: Vec<Range<usize>>,
    /// `bos_token` and the like.
    variables: Map<String, Json>,
}

/// What a render is given besides the messages.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions<'a> {
    pub add_generation_prompt: bool,
    /// A JSON array of tools, or empty.
    pub tools_json: &'a str,
    /// A JSON object of further variables, or empty.
    pub kwargs_json: &'a str,
    /// Seconds since 1970 for `strftime_now`; `None` is the present.
    pub now_s: Option<i64>,
}

/// One message: `fields_json`, an object or empty, adds to and overrides role and content.
#[derive(Clone, Debug, Default)]
pub struct Message<'a> {
    pub role: &'a str,
    pub content: &'a str,
    pub fields_json: &'a str,
}

/// Rendered text, with the byte ranges that `{% generation %}` marks as the assistant's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    pub generation: Vec<Range<usize>>,
}

/// The message a template passed to `raise_exception`, kept apart from what minijinja adds to it.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl ChatTemplate {
    /// Compiles a template; `variables` are `bos_token` and the like.
    /// Fails with InvalidArtifact on a syntax error, naming its line.
    pub fn new(source: &str, variables: Map<String, Json>) -> Result<Self> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(TextError::artifact(format!(
                "chat template; expected at most {MAX_SOURCE_BYTES} bytes, got {}",
                source.len()
            )));
        }
        with_large_stack(|| Self::compile(source, variables))
    }

    fn compile(source: &str, variables: Map<String, Json>) -> Result<Self> {
        let (source, generation) = replace_generation(source);
        check_tags(&source)?;
        let mut environment = python_environment();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| explain(&e, Code::Internal))?);
        environment
            .add_template_owned(NAME, source)
            .map_err(|e| explain(&e, Code::InvalidArtifact))?;
        Ok(Self { environment, generation, variables })
    }

    /// Renders a conversation.
    ///
    /// Fails with InvalidArgument when the template refuses the messages (its own words) or cannot
    /// handle them, and on JSON that is not of the expected form; with ResourceExhausted beyond
    /// the limits on work and size.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered> {
        with_large_stack(|| self.render_here(messages, options))
    }

    fn render_here(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered> {
        let mut context = self.variables.clone();
        context.insert("documents".into(), Json::Null);
        context.extend(parse_kwargs(options.kwargs_json)?);
        context.insert("messages".into(), messages_json(messages)?);
        context.insert("tools".into(), parse_tools(options.tools_json)?);
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        let now_s = options.now_s.unwrap_or_else(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
        });
        context.insert(NOW.into(), now_s.into());

        let failed = |e: Error| explain(&e, Code::InvalidArgument);
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let (text, spans) =
            template.render_with_spans(Value::from(minijinja::value::Serde(&context))).map_err(failed)?;
        if text.len() > MAX_OUTPUT_BYTES {
            return Err(TextError::new(
                Code::ResourceExhausted,
                format!("chat template output; expected at most {MAX_OUTPUT_BYTES} bytes, got {}", text.len()),
            ));
        }
        let mut generation: Vec<Range<usize>> = Vec::new();
        for span in spans {
            let source = span.source_range();
            if !self.generation.iter().any(|g| g.start <= source.start && source.end <= g.end) {
                continue;
            }
            let output = span.output_range();
            match generation.last_mut() {
                Some(last) if last.end == output.start => last.end = output.end,
                _ => generation.push(output),
            }
        }
        Ok(Rendered { text, generation })
    }
}

/// Runs `body` on a thread of its own with `STACK_BYTES` of stack. Only the pages it touches take
/// memory, and they are returned at its end.
fn with_large_stack<T: Send>(body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body);
        let thread = thread.map_err(|e| {
            let what = format!("chat template needs a thread with {STACK_BYTES} bytes of stack: {e}");
            TextError::new(Code::ResourceExhausted, what)
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// An environment that behaves as the one `transformers` sets up.
fn python_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(python::method);
    environment.set_formatter(|out, state, value| {
        let mut text = String::new();
        python::write_str(&mut text, state, value)?;
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("tojson", |state: &State, value: Value, rest: Rest<Value>, kwargs: Kwargs| {
        json_dumps::tojson(state, value, rest, kwargs)
    });
    environment.add_filter("string", |state: &State, value: Value| -> std::result::Result<String, Error> {
        let mut text = String::new();
        python::write_str(&mut text, state, &value)?;
        Ok(text)
    });
    // These print nested values in cubic time, which no fuel is charged for until they are done.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment.add_filter("indent", python::indent);
    environment.add_test("sequence", python::is_sequence);
    environment.add_test("iterable", python::is_iterable);
    environment.add_function("raise_exception", |state: &State, message: Value| -> std::result::Result<Value, Error> {
        let mut text = String::new();
        python::write_str(&mut text, state, &message)?;
        Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(text)))
    });
    environment.add_function("strftime_now", |state: &State, format: &str| {
        let now_s = state.lookup(NOW).and_then(|v| v.as_i64()).unwrap_or(0);
        python::strftime(format, now_s)
    });
    environment
}

/// Turns `{% generation %}` into `{% if true %}`, which minijinja has, and finds the bodies.
/// Tags inside of comments are replaced too, without effect; nested tags give the outer body.
fn replace_generation(source: &str) -> (String, Vec<Range<usize>>) {
    let mut out = String::with_capacity(source.len());
    let mut bodies = Vec::new();
    let mut open = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let ending = bare_tag(rest, "endgeneration");
        let ends = ending.is_some();
        let Some(tag) = ending.or_else(|| bare_tag(rest, "generation")) else {
            out.push_str("{%");
            rest = &rest[2..];
            continue;
        };
        let start = out.len();
        out.push_str("{%");
        out.push_str(tag.before);
        out.push_str(if ends { " endif " } else { " if true " });
        out.push_str(tag.after);
        out.push_str("%}");
        if !ends {
            open.push(out.len());
        } else if let Some(body) = open.pop() {
            bodies.push(body..start);
        }
        rest = &rest[tag.length..];
    }
    out.push_str(rest);
    (out, bodies)
}

/// A tag that is but a word, such as `{%- generation -%}`, with the white-space control on its sides.
struct BareTag<'a> {
    before: &'a str,
    after: &'a str,
    length: usize,
}

/// Reads the tag of this `name` at the start of `text`.
fn bare_tag<'a>(text: &'a str, name: &str) -> Option<BareTag<'a>> {
    let control = |s: &str| s.starts_with(['-', '+']) as usize;
    let inner = text.strip_prefix("{%")?;
    let (before, inner) = inner.split_at(control(inner));
    let inner = inner.trim_ascii_start().strip_prefix(name)?.trim_ascii_start();
    let (after, inner) = inner.split_at(control(inner));
    let inner = inner.strip_prefix("%}")?;
    Some(BareTag { before, after, length: text.len() - inner.len() })
}

/// Refuses tags longer than `MAX_TAG_BYTES`. Comments, raw blocks, quotes and brackets end where they
/// do for minijinja's lexer, or a tag could hide from this.
fn check_tags(source: &str) -> Result<()> {
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        rest = &rest[at..];
        if rest.starts_with("{#") {
            rest = rest[2..].split_once("#}").map_or("", |(_, after)| after);
        } else if let Some(raw) = bare_tag(rest, "raw") {
            rest = &rest[raw.length..];
            while let Some(at) = rest.find("{%") {
                rest = &rest[at..];
                let end = bare_tag(rest, "endraw");
                rest = &rest[end.as_ref().map_or(2, |tag| tag.length)..];
                if end.is_some() {
                    break;
                }
            }
        } else if rest.starts_with("{{") || rest.starts_with("{%") {
            let (length, unquoted) = measure_tag(rest);
            if unquoted > MAX_TAG_BYTES {
                let line = 1 + source[..source.len() - rest.len()].matches('\n').count();
                return Err(TextError::artifact(format!(
                    "chat template line {line}: a tag; expected at most {MAX_TAG_BYTES} bytes outside of quotes, got {unquoted}"
                )));
            }
            rest = &rest[length..];
        } else {
            rest = &rest[1..];
        }
    }
    Ok(())
}

/// The bytes of the tag at the start of `text`: all, and those that are not in quotes.
fn measure_tag(text: &str) -> (usize, usize) {
    let closing: &[u8] = if text.starts_with("{{") { b"}}" } else { b"%}" };
    let bytes = text.as_bytes();
    let (mut at, mut unquoted, mut open_brackets) = (2, 2, 0i64);
    while at < bytes.len() {
        if open_brackets == 0 && bytes[at..].starts_with(closing) {
            return (at + 2, unquoted + 2);
        }
        match bytes[at] {
            b'(' | b'[' | b'{' => open_brackets += 1,
            b')' | b']' | b'}' => open_brackets -= 1,
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        at += 1;
        unquoted += 1;
    }
    (text.len(), unquoted)
}

fn messages_json(messages: &[Message]) -> Result<Json> {
    let mut list = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let mut fields = Map::new();
        fields.insert("role".into(), message.role.into());
        fields.insert("content".into(), message.content.into());
        if !message.fields_json.is_empty() {
            fields.extend(parse_object(&format!("messages[{index}] fields"), message.fields_json)?);
        }
        list.push(Json::Object(fields));
    }
    Ok(Json::Array(list))
}

fn parse_tools(text: &str) -> Result<Json> {
    if text.is_empty() {
        return Ok(Json::Null);
    }
    match serde_json::from_str(text) {
        Ok(tools @ Json::Array(_)) => Ok(tools),
        Ok(_) => Err(TextError::argument("tools; expected a JSON array")),
        Err(e) => Err(TextError::argument(format!("tools; expected a JSON array, got: {e}"))),
    }
}

fn parse_kwargs(text: &str) -> Result<Map<String, Json>> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    let kwargs = parse_object("template arguments", text)?;
    match RESERVED.iter().find(|&&name| kwargs.contains_key(name)) {
        Some(name) => Err(TextError::argument(format!("template arguments may not contain {name:?}"))),
        None => Ok(kwargs),
    }
}

fn parse_object(what: &str, text: &str) -> Result<Map<String, Json>> {
    match serde_json::from_str(text) {
        Ok(Json::Object(fields)) => Ok(fields),
        Ok(_) => Err(TextError::argument(format!("{what}; expected a JSON object"))),
        Err(e) => Err(TextError::argument(format!("{what}; expected a JSON object, got: {e}"))),
    }
}

/// A one-line message: the template's own words if it raised, else minijinja's with the line.
fn explain(error: &Error, code: Code) -> TextError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    let mut out_of_fuel = false;
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return TextError::new(code, raised.0.as_str());
        }
        out_of_fuel |= current.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel);
        cause = current.source();
    }
    if out_of_fuel {
        return TextError::new(Code::ResourceExhausted, "chat template needs more work than is allowed");
    }
    let line = error.line().map_or(String::new(), |line| format!(" line {line}"));
    let detail = error.detail().map_or(String::new(), |d| format!(": {d}"));
    TextError::new(code, format!("chat template{line}: {}{detail}", error.kind()))
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
