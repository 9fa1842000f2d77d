//! Numbers from sequences of words.

use indexmap::IndexSet;
use ir_core::{DType, TensorData};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded, few};

pub(super) const OPERATORS: &[Operator] =
    &[one("TfIdfVectorizer", "`equal`, `all`, `sum`, `nn.matmul`; known extents", vectorizer)
        .reading()];

/// Words are counted for each distance that they may be apart.
const MOST_DISTANCES: i64 = 100;

/// Sequences of words of one length that are counted.
struct Words {
    length: usize,
    /// One after the other.
    words: Vec<i64>,
    /// For each sequence, its column in the result.
    columns: Vec<i64>,
}

impl Words {
    /// Those of each length that the node counts, and the number of columns.
    fn all(cx: &Cx<'_, '_>, pool: &[i64]) -> Result<(Vec<Words>, i64), Fault> {
        let starts = cx.ints("ngram_counts")?.unwrap_or_default();
        let columns = cx.ints("ngram_indexes")?.unwrap_or_default();
        bounded("ngram_indexes", &columns, 0)?;
        let (least, most) = (cx.int("min_gram_length", 1)?, cx.int("max_gram_length", 1)?);
        let width = columns.iter().max().map_or(0, |last| last + 1);
        let ends = starts.iter().skip(1).copied().chain([pool.len() as i64]);
        let (mut all, mut first) = (Vec::new(), 0);
        for (at, (start, end)) in starts.iter().copied().zip(ends).enumerate() {
            let length = at + 1;
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            let words = range.and_then(|(start, end)| pool.get(start..end));
            let Some(words) = words else {
                let found = (start, end);
                return Err(format!("expected places in the pool of words, found {found:?}").into());
            };
            let count = words.len() / length;
            let own = columns.get(first..first + count);
            let Some(own) = own else {
                let found = columns.len();
                return Err(format!("expected more `ngram_indexes`, found {found}").into());
            };
            first += count;
            if count > 0 && (least..=most).contains(&(length as i64)) {
                let words = words[..count * length].to_vec();
                all.push(Words { length, words, columns: own.to_vec() });
            }
        }
        Ok((all, width))
    }

    /// How often each sequence occurs in each row, its words `skip` apart; `None` where rows are too
    /// short.
    fn counts(
        &self,
        cx: &mut Cx<'_, '_>,
        rows: &Value,
        extent: Option<i64>,
        skip: i64,
    ) -> Result<Option<Value>, Fault> {
        let reach = (self.length as i64 - 1).saturating_mul(skip);
        if extent.is_some_and(|extent| extent <= reach) {
            return Ok(None);
        }
        let mut found: Option<Value> = None;
        for word in 0..self.length {
            let begin = word as i64 * skip;
            let end = match (begin - reach, extent) {
                (_, Some(extent)) => extent + begin - reach,
                (0, None) => i64::from(i32::MAX),
                (from_back, None) => from_back,
            };
            let attrs =
                attr("begin", vec![begin]).with("end", &vec![end]).with("axes", &vec![1i64]);
            let part = match reach {
                0 => rows.clone(),
                _ => cx.op_with("strided_slice", &[rows], attrs)?,
            };
            let part = cx.expand_dims(&part, 2)?;
            let own = self.words.iter().skip(word).step_by(self.length).copied();
            let own = cx.int_vector(&own.collect::<Vec<i64>>());
            let equal = cx.op("equal", &[&part, &own])?;
            found = Some(match found {
                Some(found) => cx.op("logical_and", &[&found, &equal])?,
                None => equal,
            });
        }
        let Some(found) = found else { return Ok(None) };
        let found = cx.cast(&found, DType::FLOAT32)?;
        Ok(Some(cx.op_with("sum", &[&found], attr("axis", vec![1i64]))?))
    }
}

fn vectorizer(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, pool) = match (cx.input(0)?, cx.texts("pool_strings")?, cx.ints("pool_int64s")?) {
        (Value::Texts(texts), Some(pool), _) => {
            let keys: IndexSet<String> = pool.iter().cloned().collect();
            let place = |word: &String| keys.get_index_of(word).map_or(-1, |place| place as i64);
            let pool = pool.iter().map(place).collect();
            (texts.numbers(cx, &keys.iter().cloned().collect::<Vec<String>>())?, pool)
        }
        (Value::Texts(_), None, _) => {
            return Err("expected words that are texts, as `pool_strings`".into());
        }
        (data, _, Some(pool)) => (data, pool),
        (_, _, None) => return Err("expected words that are integers, as `pool_int64s`".into()),
    };
    let is_row = cx.rank(&data)? == 1;
    let rows = if is_row { cx.expand_dims(&data, 0)? } else { data };
    let (batch, extent) = match cx.ty(&rows)?.shape[..] {
        [batch, extent] => (batch.known(), extent.known()),
        _ => {
            let found = cx.ty_of(&rows);
            return Err(format!("expected a tensor of rank 1 or 2, found {found}").into());
        }
    };
    let Some(batch) = batch else {
        let found = cx.ty_of(&rows);
        return Err(Fault::Open(format!("expected a known number of rows, found {found}")));
    };
    let rows = cx.cast(&rows, DType::INT64)?;
    let (all, width) = Words::all(cx, &pool)?;
    let skips = cx.int("max_skip_count", 0)?;
    bounded("max_skip_count", &[skips], 0)?;
    let most = skips.saturating_add(1).min(extent.unwrap_or(i64::MAX));
    if most > MOST_DISTANCES {
        let message = format!("expected at most {MOST_DISTANCES} distances of words, found {most}");
        return Err(message.into());
    }
    let mut total = cx.full(DType::FLOAT32, &[batch, width], 0.0)?;
    for words in &all {
        // Single words are the same with any distance, and count once.
        let most = if words.length == 1 { 1 } else { most };
        few("columns of words", &[words.columns.len() as i64, width])?;
        for skip in 1..=most {
            let Some(counts) = words.counts(cx, &rows, extent, skip)? else { continue };
            let mut places = vec![0.0; words.columns.len() * width as usize];
            for (row, column) in words.columns.iter().enumerate() {
                places[row * width as usize + *column as usize] = 1.0;
            }
            let shape = [words.columns.len() as i64, width];
            let places = TensorData::from_f64(DType::FLOAT32, &shape, &places);
            let places = Value::Constant(places.map_err(|error| error.to_string())?);
            let counts = super::linear::matmul(cx, &counts, &places)?;
            total = cx.op("add", &[&total, &counts])?;
        }
    }
    let weights = match cx.floats("weights")? {
        Some(weights) => {
            let weights = TensorData::from_f64(DType::FLOAT32, &[width], &weights);
            Value::Constant(weights.map_err(|error| error.to_string())?)
        }
        None => cx.full(DType::FLOAT32, &[width], 1.0)?,
    };
    let is_there = |cx: &mut Cx<'_, '_>| {
        let is_there = cx.with_scalar("greater", &total, 0.0)?;
        cx.cast(&is_there, DType::FLOAT32)
    };
    let result = match cx.text("mode", "TF")? {
        "TF" => total,
        "IDF" => {
            let is_there = is_there(cx)?;
            cx.op("multiply", &[&is_there, &weights])?
        }
        "TFIDF" => cx.op("multiply", &[&total, &weights])?,
        other => return Err(format!("expected TF, IDF or TFIDF, found `{other}`").into()),
    };
    if is_row { cx.reshape(&result, &[width]) } else { Ok(result) }
}
