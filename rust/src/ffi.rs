//! The C ABI; `include/tessera_text.h` documents it. Nothing but conversion happens here.
//!
//! Safety: callers pass valid pointers as the header asks. Panics are caught at every entry, since
//! unwinding into C++ is undefined.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::error::{panic_text, Code, Result, TextError};
use crate::gguf::{self, GgufVocabulary};
use crate::template::{ChatTemplate, Message, RenderOptions};
use crate::tokenizer::TextTokenizer;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

impl Slice {
    const EMPTY: Slice = Slice { data: std::ptr::null(), size: 0 };

    fn of(text: &str) -> Self {
        Self { data: text.as_ptr(), size: text.len() }
    }

    unsafe fn bytes<'a>(self) -> &'a [u8] {
        unsafe { array(self.data, self.size) }
    }

    /// The text, with U+FFFD for what is not UTF-8.
    unsafe fn lossy<'a>(self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(unsafe { self.bytes() })
    }

    unsafe fn utf8<'a>(self, what: &str) -> Result<&'a str> {
        std::str::from_utf8(unsafe { self.bytes() })
            .map_err(|e| TextError::argument(format!("{what} is not UTF-8 at byte {}", e.valid_up_to())))
    }
}

/// A borrowed C array; NULL stands for an empty one.
unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 || data.is_null() {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

/// An array that C owns: allocated as a boxed slice, freed by `take`.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

impl<T> Owned<T> {
    fn new(items: Vec<T>) -> Self {
        let items = Box::leak(items.into_boxed_slice());
        Self { data: items.as_mut_ptr(), size: items.len() }
    }

    unsafe fn free(this: *mut Self) {
        let Some(this) = (unsafe { this.as_mut() }) else { return };
        if !this.data.is_null() {
            let items = std::ptr::slice_from_raw_parts_mut(this.data, this.size);
            drop(unsafe { Box::from_raw(items) });
        }
        this.data = std::ptr::null_mut();
        this.size = 0;
    }
}

/// Runs `body`; hands its value to `store`, or its error to C.
unsafe fn guarded<T>(
    error: *mut Owned<u8>,
    body: impl FnOnce() -> Result<T>,
    store: impl FnOnce(T),
) -> i32 {
    silence_panics();
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = panic_text(&*payload);
        Err(TextError::new(Code::Internal, format!("the text library panicked: {text}")))
    });
    match result {
        Ok(value) => {
            store(value);
            0
        }
        Err(failure) => {
            if !error.is_null() {
                unsafe { *error = Owned::new(failure.message.into_bytes()) };
            }
            failure.code as i32
        }
    }
}

/// A panic is reported as an error; its printout would reach the terminal of whoever embeds us.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_free_buffer(buffer: *mut Owned<u8>) {
    unsafe { Owned::free(buffer) }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_free_ids(ids: *mut Owned<u32>) {
    unsafe { Owned::free(ids) }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_free_ranges(ranges: *mut Owned<u64>) {
    unsafe { Owned::free(ranges) }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_tokenizer_from_json(
    tokenizer_json: Slice,
    tokenizer_config: Slice,
    tokenizer: *mut *mut TextTokenizer,
    error: *mut Owned<u8>,
) -> i32 {
    let body = || {
        let config = unsafe { tokenizer_config.lossy() };
        TextTokenizer::from_json(unsafe { tokenizer_json.bytes() }, &config)
    };
    unsafe { guarded(error, body, |built| *tokenizer = Box::into_raw(Box::new(built))) }
}

#[repr(C)]
pub struct CGgufVocabulary {
    model: Slice,
    pre: Slice,
    tokens: *const Slice,
    n_tokens: usize,
    scores: *const f32,
    n_scores: usize,
    token_types: *const i32,
    n_token_types: usize,
    merges: *const Slice,
    n_merges: usize,
    add_bos: i32,
    add_eos: i32,
    add_space_prefix: i32,
    bos_id: i64,
    eos_id: i64,
    eot_id: i64,
    eom_id: i64,
    unk_id: i64,
    pad_id: i64,
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_tokenizer_from_gguf(
    vocabulary: *const CGgufVocabulary,
    tokenizer: *mut *mut TextTokenizer,
    error: *mut Owned<u8>,
) -> i32 {
    let body = || {
        let v = unsafe { &*vocabulary };
        let (model, pre) = unsafe { (v.model.lossy(), v.pre.lossy()) };
        let strings = |data, size| -> Vec<&[u8]> {
            unsafe { array::<Slice>(data, size).iter().map(|s| s.bytes()).collect() }
        };
        let flag = |value: i32| (value >= 0).then_some(value != 0);
        // An id too large for 32 bits is out of range for any vocabulary, and reported as such.
        let id = |value: i64| (value >= 0).then(|| u32::try_from(value).unwrap_or(u32::MAX));
        gguf::build(&GgufVocabulary {
            model: &model,
            pre: &pre,
            tokens: strings(v.tokens, v.n_tokens),
            scores: unsafe { array(v.scores, v.n_scores) },
            types: unsafe { array(v.token_types, v.n_token_types) },
            merges: strings(v.merges, v.n_merges),
            add_bos: flag(v.add_bos),
            add_eos: flag(v.add_eos),
            add_space_prefix: flag(v.add_space_prefix),
            bos: id(v.bos_id),
            eos: id(v.eos_id),
            eot: id(v.eot_id),
            eom: id(v.eom_id),
            unk: id(v.unk_id),
            pad: id(v.pad_id),
        })
    };
    unsafe { guarded(error, body, |built| *tokenizer = Box::into_raw(Box::new(built))) }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_encode(
    tokenizer: *const TextTokenizer,
    text: Slice,
    add_special: bool,
    parse_special: bool,
    ids: *mut Owned<u32>,
    error: *mut Owned<u8>,
) -> i32 {
    let body = || unsafe { (*tokenizer).encode(&text.lossy(), add_special, parse_special) };
    unsafe { guarded(error, body, |encoded| *ids = Owned::new(encoded)) }
}

#[repr(C)]
pub struct CVocabulary {
    vocab_size: usize,
    bytes: *const u8,
    offsets: *const u64,
    special: *const u8,
    strips_leading_space: bool,
    first_token_drops_spaces: bool,
    bos_id: i64,
    eos_id: i64,
    end_ids: *const u32,
    n_end_ids: usize,
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_tokenizer_vocabulary(
    tokenizer: *const TextTokenizer,
    vocabulary: *mut CVocabulary,
) {
    let t = unsafe { &*tokenizer };
    let id = |value: Option<u32>| value.map_or(-1, i64::from);
    let filled = CVocabulary {
        vocab_size: t.vocab_size(),
        bytes: t.bytes.as_ptr(),
        offsets: t.offsets.as_ptr(),
        special: t.special.as_ptr(),
        strips_leading_space: t.rule.strips_leading_space,
        first_token_drops_spaces: t.rule.first_token_drops_spaces,
        bos_id: id(t.named.bos),
        eos_id: id(t.named.eos),
        end_ids: t.named.ends.as_ptr(),
        n_end_ids: t.named.ends.len(),
    };
    unsafe { *vocabulary = filled }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_named_token(
    tokenizer: *const TextTokenizer,
    name: Slice,
) -> Slice {
    let t = unsafe { &*tokenizer };
    let value = t.named.template_variables.get(&*unsafe { name.lossy() });
    value.and_then(|v| v.as_str()).map_or(Slice::EMPTY, Slice::of)
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_token_id(tokenizer: *const TextTokenizer, token: Slice) -> i64 {
    let t = unsafe { &*tokenizer };
    let text = std::str::from_utf8(unsafe { token.bytes() });
    text.ok().and_then(|text| t.token_id(text)).map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_template_new(
    source: Slice,
    tokenizer: *const TextTokenizer,
    chat_template: *mut *mut ChatTemplate,
    error: *mut Owned<u8>,
) -> i32 {
    let body = || {
        let t = unsafe { &*tokenizer };
        let source = unsafe { source.lossy() };
        if source.is_empty() {
            return Err(TextError::unsupported("no chat template"));
        }
        ChatTemplate::new(&source, t.named.template_variables.clone())
    };
    unsafe { guarded(error, body, |built| *chat_template = Box::into_raw(Box::new(built))) }
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_template_free(chat_template: *mut ChatTemplate) {
    if !chat_template.is_null() {
        drop(unsafe { Box::from_raw(chat_template) });
    }
}

#[repr(C)]
pub struct CMessage {
    role: Slice,
    content: Slice,
    fields_json: Slice,
}

#[repr(C)]
pub struct CRenderOptions {
    add_generation_prompt: bool,
    tools_json: Slice,
    kwargs_json: Slice,
    now_s: i64,
}

#[no_mangle]
pub unsafe extern "C" fn tessera_text_template_render(
    chat_template: *const ChatTemplate,
    messages: *const CMessage,
    n_messages: usize,
    options: *const CRenderOptions,
    text: *mut Owned<u8>,
    generation: *mut Owned<u64>,
    error: *mut Owned<u8>,
) -> i32 {
    let body = || {
        let (template, options) = unsafe { (&*chat_template, &*options) };
        let messages = unsafe { array(messages, n_messages) };
        // Role and content are text as it comes; JSON must be UTF-8.
        let texts: Vec<_> =
            messages.iter().map(|m| unsafe { (m.role.lossy(), m.content.lossy()) }).collect();
        let mut list = Vec::with_capacity(messages.len());
        for (message, (role, content)) in messages.iter().zip(&texts) {
            let fields_json = unsafe { message.fields_json.utf8("message fields")? };
            list.push(Message { role, content, fields_json });
        }
        template.render(
            &list,
            &RenderOptions {
                add_generation_prompt: options.add_generation_prompt,
                tools_json: unsafe { options.tools_json.utf8("tools")? },
                kwargs_json: unsafe { options.kwargs_json.utf8("template arguments")? },
                now_s: (options.now_s >= 0).then_some(options.now_s),
            },
        )
    };
    unsafe {
        guarded(error, body, |rendered| {
            let pairs = rendered.generation.iter().flat_map(|r| [r.start as u64, r.end as u64]);
            *generation = Owned::new(pairs.collect());
            *text = Owned::new(rendered.text.into_bytes());
        })
    }
}
