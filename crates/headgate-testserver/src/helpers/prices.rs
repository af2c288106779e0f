//! A shop: prices that depend only on an id, and pages of items.

use serde_json::{Value, json};

use super::call::Call;
use crate::response::FullResponse;

const ITEMS_PER_PAGE: u64 = 2;
const MAX_PAGES: u64 = 4;

/// Returns the price of the id that is the argument, or 304 if the client has it.
pub(super) fn price(call: &Call<'_>) -> FullResponse {
    let id = call.argument;
    if id.is_empty() || id == "null" {
        return error("no id");
    }
    let price = price_of(id);
    let tag = format!("\"{price}\"");
    let is_known = call.received.field("if-none-match").is_some_and(|known| known == tag);
    let response = if is_known {
        FullResponse::new(304, "")
    } else {
        FullResponse::json(&json!({ "id": id, "price": price, "currency": "EUR" }))
    };
    response.with_field("ETag", &tag)
}

/// Returns a page of items; the argument determines how many pages there are.
pub(super) fn page(call: &Call<'_>) -> FullResponse {
    let name = call.argument;
    let pages = 1 + hash(name) % MAX_PAGES;
    let page = call.received.parameter("page").map_or(Ok(1), |page| page.parse());
    let Some(page) = page.ok().filter(|page| (1..=pages).contains(page)) else {
        return error("no such page");
    };
    let items: Vec<Value> = (1..=ITEMS_PER_PAGE)
        .map(|item| format!("{name}-{}", (page - 1) * ITEMS_PER_PAGE + item))
        .map(|id| json!({ "id": id, "price": price_of(&id) }))
        .collect();
    let next = (page < pages).then(|| format!("/pages/{name}?page={}", page + 1));
    FullResponse::json(&json!({ "items": items, "page": page, "pages": pages, "next": next }))
}

fn error(message: &str) -> FullResponse {
    FullResponse::json(&json!({ "error": { "message": message } })).with_status(400)
}

/// Returns a price as text, from 0.01 to 999.99.
fn price_of(id: &str) -> String {
    let cents = 1 + hash(id) % 99_999;
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// The hash FNV-1a with 64 bits, which tests compute, too.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
