//! Texts: rows of code points, and for each element of a tensor its row.
//!
//! What only moves texts is said where it stands, see [`OfTexts`](super::OfTexts); here is what reads
//! them. The number and the lengths of texts are known while a model is imported.

use std::error::Error;
use std::fmt::Display;
use std::rc::Rc;

use ir_core::{DType, TensorData};
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, nfa::thompson};
use regex_syntax::hir::{Class, HirKind};
use rustc_hash::FxHashMap;

use super::vision::first_rows;
use super::{Operator, many, one};
use crate::importer::{Fault, Texts, Value, count_texts};
use crate::node::{Cx, attr, attrs};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "RegexFullMatch",
        "a table of states, and a recursive function over the bytes of the texts",
        full_match,
    )
    .reading(),
    one("StringConcat", "`concatenate` and `gather` of code points", concatenated).reading(),
    one(
        "StringNormalizer",
        "`take` from a table of cases, `equal`, `argwhere`; letters whose other case is one letter",
        normalized,
    )
    .reading(),
    one(
        "com.microsoft.Tokenizer",
        "`cumsum`, comparisons and `gather` of code points; words of one class of characters, as in `\\w+`",
        tokenized,
    )
    .reading(),
    many("StringSplit", "`cumsum`, comparisons and `gather` of code points", split).reading(),
];

/// Rows of texts, their number and their length.
struct Rows {
    points: Value,
    count: i64,
    length: i64,
}

impl Rows {
    /// `points` are of shape `(count, length)`.
    fn new(cx: &Cx<'_, '_>, points: Value) -> Result<Rows, Fault> {
        match cx.shape(&points)?[..] {
            [count, length] => Ok(Rows { points, count, length }),
            _ => Err("expected rows of code points".into()),
        }
    }

    /// Texts of the model.
    fn constant(texts: &[String]) -> Result<Rows, Fault> {
        let points = crate::texts::encode(&[texts.len() as i64], texts)?;
        let [count, length] = points.shape()[..] else {
            return Err("expected rows of code points".into());
        };
        Ok(Rows { points: Value::Constant(points), count, length })
    }

    /// The elements of `texts` in order.
    fn of(cx: &mut Cx<'_, '_>, texts: &Texts) -> Result<(Rows, Vec<i64>), Fault> {
        let shape = cx.shape(&texts.places)?;
        let count = count_texts(&shape)?;
        let places = cx.reshape(&texts.places, &[count])?;
        let points = cx.op_with("take", &[&texts.rows, &places], attr("axis", 0i64))?;
        Ok((Rows::new(cx, points)?, shape))
    }

    /// With zeros up to `length` columns.
    fn lengthened(self, cx: &mut Cx<'_, '_>, length: i64) -> Result<Rows, Fault> {
        let points = cx.lengthened(&self.points, length)?;
        Ok(Rows { points, length: self.length.max(length), ..self })
    }

    /// The tensor of `shape` with these texts in order.
    fn shaped(self, shape: &[i64]) -> Result<Value, Fault> {
        Ok(Value::Texts(Rc::new(Texts::in_order(self.points, shape)?)))
    }

    /// The columns of each row, of which a mask `(count, columns)` says whether they count, up to each.
    fn counted(cx: &mut Cx<'_, '_>, mask: &Value) -> Result<Value, Fault> {
        let mask = cx.cast(mask, DType::INT64)?;
        cx.op_with("cumsum", &[&mask], attr("axis", 1i64))
    }

    /// Whether each code point is in one of `ranges`, from the first to the last: `(count, length)`.
    fn within(&self, cx: &mut Cx<'_, '_>, ranges: &[(char, char)]) -> Result<Value, Fault> {
        let mut found = cx.with_scalar("less", &self.points, 0.0)?;
        for (first, last) in ranges {
            let (first, last) = (f64::from(u32::from(*first)), f64::from(u32::from(*last)));
            let is_first = cx.with_scalar("greater_equal", &self.points, first)?;
            let is_last = cx.with_scalar("less_equal", &self.points, last)?;
            let is_inside = cx.op("logical_and", &[&is_first, &is_last])?;
            found = cx.op("logical_or", &[&found, &is_inside])?;
        }
        Ok(found)
    }

    /// How many code points each text has: `(count, 1)`.
    fn lengths(&self, cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
        let is_there = cx.with_scalar("not_equal", &self.points, 0.0)?;
        let is_there = cx.cast(&is_there, DType::INT64)?;
        cx.op_with("sum", &[&is_there], attr("axis", vec![1i64]).with("keepdims", &true))
    }
}

impl Texts {
    /// Whether each of the rows is each of `keys`, `(rows, keys)`.
    fn rows_are(&self, cx: &mut Cx<'_, '_>, keys: &[String]) -> Result<Value, Fault> {
        let (rows, keys) = (Rows::new(cx, self.rows.clone())?, Rows::constant(keys)?);
        let length = rows.length.max(keys.length);
        let (rows, keys) = (rows.lengthened(cx, length)?, keys.lengthened(cx, length)?);
        let rows = cx.expand_dims(&rows.points, 1)?;
        let equal = cx.op("equal", &[&rows, &keys.points])?;
        cx.op_with("all", &[&equal], attr("axis", vec![2i64]))
    }

    /// What each row has of `of_rows`, for each element of the tensor.
    fn spread(&self, cx: &mut Cx<'_, '_>, of_rows: &Value) -> Result<Value, Fault> {
        cx.op_with("take", &[of_rows, &self.places], attr("axis", 0i64))
    }

    /// Whether each element is each of `keys`, which are one more axis.
    pub(super) fn are(&self, cx: &mut Cx<'_, '_>, keys: &[String]) -> Result<Value, Fault> {
        let of_rows = self.rows_are(cx, keys)?;
        self.spread(cx, &of_rows)
    }

    /// The texts of a constant.
    pub(super) fn known(&self, cx: &Cx<'_, '_>) -> Result<Vec<String>, Fault> {
        let (rows, places) = (cx.constant(&self.rows), cx.known_ints(&self.places));
        let (Some(rows), Some(places)) = (rows, places) else {
            return Err("expected constant texts".into());
        };
        let rows = crate::texts::decode(rows)?;
        let text = |place: i64| rows.get(usize::try_from(place).ok()?).cloned();
        let texts: Option<Vec<String>> = places.into_iter().map(text).collect();
        texts.ok_or_else(|| "expected places of texts".into())
    }

    /// For each element its place in `keys`, and -1 where it is none of them.
    pub(super) fn numbers(&self, cx: &mut Cx<'_, '_>, keys: &[String]) -> Result<Value, Fault> {
        let equal = self.rows_are(cx, keys)?;
        let is_known = cx.op_with("any", &[&equal], attr("axis", vec![1i64]))?;
        let equal = cx.cast(&equal, DType::INT32)?;
        let place = cx.op_with("argmax", &[&equal], attr("axis", vec![1i64]))?;
        let place = cx.cast(&place, DType::INT64)?;
        let none = cx.int_scalar(DType::INT64, -1);
        let place = cx.op("where", &[&is_known, &place, &none])?;
        self.spread(cx, &place)
    }

    /// Texts of the model, by their places.
    pub(super) fn chosen(texts: &[String], places: Value) -> Result<Value, Fault> {
        let rows = Rows::constant(texts)?.points;
        Ok(Value::Texts(Rc::new(Texts { rows, places })))
    }
}

/// Operand `index`, which must be texts.
fn texts(cx: &Cx<'_, '_>, index: usize) -> Result<Rc<Texts>, Fault> {
    match cx.input(index)? {
        Value::Texts(texts) => Ok(texts),
        other => Err(format!("expected texts, found {}", cx.ty_of(&other)).into()),
    }
}

/// Whether two tensors of texts are equal, where one of both broadcasts to the other.
pub(super) fn equal(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (mut sides, mut longest) = (Vec::new(), 0);
    for index in 0..2 {
        let texts = texts(cx, index)?;
        let rows = Rows::new(cx, texts.rows.clone())?;
        longest = longest.max(rows.length);
        sides.push((rows, texts));
    }
    let mut points = Vec::new();
    for (rows, texts) in sides {
        let rows = rows.lengthened(cx, longest)?;
        points.push(texts.spread(cx, &rows.points)?);
    }
    let equal = cx.op("equal", &[&points[0], &points[1]])?;
    cx.op_with("all", &[&equal], attr("axis", vec![-1i64]))
}

/// The shape that two shapes broadcast to.
fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, Fault> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(place) => shape[place],
        None => 1,
    };
    let joined = (0..rank).map(|axis| match (extent(a, axis), extent(b, axis)) {
        (x, y) if x == y => Ok(x),
        (1, y) => Ok(y),
        (x, 1) => Ok(x),
        _ => Err(format!("expected shapes that broadcast, found {a:?} and {b:?}").into()),
    });
    joined.collect()
}

/// So many code points are gigabytes of what is computed of them.
const MOST_POINTS: i64 = 1 << 28;

/// Refuses as many code points as the product of `extents`, where that is no reasonable number.
fn fits(extents: &[i64]) -> Result<(), Fault> {
    let points = extents.iter().try_fold(1i64, |points, extent| points.checked_mul(*extent));
    match points.is_some_and(|points| points <= MOST_POINTS) {
        true => Ok(()),
        false => {
            Err(format!("expected at most {MOST_POINTS} code points, found {extents:?}").into())
        }
    }
}

/// Columns `0` to `count`, as `(1, count)`.
fn columns(cx: &mut Cx<'_, '_>, count: i64) -> Result<Value, Fault> {
    let columns = cx.int_vector(&(0..count_texts(&[count])?).collect::<Vec<i64>>());
    cx.reshape(&columns, &[1, count])
}

fn concatenated(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (a, b) = (texts(cx, 0)?, texts(cx, 1)?);
    let shape = broadcast(&cx.shape(&a.places)?, &cx.shape(&b.places)?)?;
    let mut sides = Vec::new();
    for side in [a, b] {
        let own = cx.shape(&side.places)?;
        let places = match own == shape {
            true => side.places.clone(),
            false => cx.op_with("broadcast_to", &[&side.places], attr("shape", shape.clone()))?,
        };
        let (rows, _) = Rows::of(cx, &Texts { rows: side.rows.clone(), places })?;
        sides.push(rows);
    }
    let [a, b] = &sides[..] else { return Err("expected two operands".into()) };
    let all = a.length.saturating_add(b.length);
    fits(&[a.count, all])?;
    // Behind both, a column of zeros, which what is behind the texts is taken from.
    let both = cx.concatenate(&[a.points.clone(), b.points.clone()], 1)?;
    let both = cx.lengthened(&both, all + 1)?;
    let (length, column) = (a.lengths(cx)?, columns(cx, all)?);
    let is_first = cx.op("less", &[&column, &length])?;
    let beyond = cx.op("subtract", &[&column, &length])?;
    let beyond = cx.with_scalar("add", &beyond, a.length as f64)?;
    let beyond = cx.op_with("clip", &[&beyond], attr("a_min", 0.0).with("a_max", &(all as f64)))?;
    let from = cx.op("where", &[&is_first, &column, &beyond])?;
    let points = cx.op_with("gather", &[&both, &from], attr("axis", 1i64))?;
    Rows::new(cx, points)?.shaped(&shape)
}

/// How letters change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
}

/// Letters beyond this have no other case.
const LAST_LETTER: u32 = 0x1E943;

impl Case {
    /// The letter that `letter` becomes; itself where that would be several.
    fn of(self, letter: char) -> char {
        let mut letters = letter.to_lowercase();
        let mut capitals = letter.to_uppercase();
        let one = match self {
            Case::Lower => letters.next().filter(|_| letters.next().is_none()),
            Case::Upper => capitals.next().filter(|_| capitals.next().is_none()),
        };
        one.unwrap_or(letter)
    }

    /// `points` in this case, by a table of all letters.
    fn apply(self, cx: &mut Cx<'_, '_>, points: &Value) -> Result<Value, Fault> {
        let changed = |point: u32| char::from_u32(point).map_or(point, |c| u32::from(self.of(c)));
        let table: Vec<i64> = (0..=LAST_LETTER).map(|point| i64::from(changed(point))).collect();
        let table = TensorData::from_i64(DType::INT32, &[table.len() as i64], &table);
        let table = Value::Constant(table.map_err(|error| error.to_string())?);
        let attrs = attr("axis", 0i64).with("mode", &"clip".to_string());
        let found = cx.op_with("take", &[&table, points], attrs)?;
        let is_letter = cx.with_scalar("less_equal", points, f64::from(LAST_LETTER))?;
        cx.op("where", &[&is_letter, &found, points])
    }
}

fn normalized(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = texts(cx, 0)?;
    let (rows, shape) = Rows::of(cx, &data)?;
    if !matches!(shape[..], [_] | [1, _]) {
        return Err(format!("expected texts of shape (C) or (1, C), found {shape:?}").into());
    }
    let case = match cx.text("case_change_action", "NONE")? {
        "NONE" => None,
        "LOWER" => Some(Case::Lower),
        "UPPER" => Some(Case::Upper),
        other => return Err(format!("expected NONE, LOWER or UPPER, found `{other}`").into()),
    };
    let mut points = rows.points.clone();
    let mut places = None;
    let stopwords = cx.texts("stopwords")?.unwrap_or_default();
    if !stopwords.is_empty() {
        let (compared, stopwords) = match cx.flag("is_case_sensitive", false)? {
            true => (points.clone(), stopwords),
            false => {
                let lower = |word: &String| word.chars().map(|c| Case::Lower.of(c)).collect();
                (Case::Lower.apply(cx, &points)?, stopwords.iter().map(lower).collect())
            }
        };
        let order = cx.int_vector(&(0..rows.count).collect::<Vec<i64>>());
        let compared = Texts { rows: compared, places: order };
        let is_stopword = compared.rows_are(cx, &stopwords)?;
        let is_stopword = cx.op_with("any", &[&is_stopword], attr("axis", vec![1i64]))?;
        let is_kept = cx.op("logical_not", &[&is_stopword])?;
        // Where nothing is left, an empty text, which stands behind the others.
        let is_empty = cx.op_with("all", &[&is_stopword], attr("keepdims", true))?;
        let is_kept = cx.concatenate(&[is_kept, is_empty], 0)?;
        let kept = cx.op("argwhere", &[&is_kept])?;
        let kept = cx.squeeze(&kept, &[1])?;
        places = Some(cx.cast(&kept, DType::INT64)?);
        let empty = cx.full(DType::INT32, &[1, rows.length], 0.0)?;
        points = cx.concatenate(&[points, empty], 0)?;
    }
    if let Some(case) = case {
        points = case.apply(cx, &points)?;
    }
    let Some(mut places) = places else { return Rows::new(cx, points)?.shaped(&shape) };
    if shape.len() == 2 {
        places = cx.expand_dims(&places, 0)?;
    }
    Ok(Value::Texts(Rc::new(Texts { rows: points, places })))
}

/// Where the parts of texts begin and end, by columns.
struct Parts {
    /// How many parts each text has: `(count, 1)`.
    number: Value,
    /// For part `k`, how many columns are before its first: those of `before` that are at most `k`.
    before: Value,
    /// … and before its end.
    until: Value,
    /// At most as many parts has a text.
    most: i64,
}

/// What is looked for column by column, as delimiters that may overlap, is so in texts of at most so many.
const MOST_COLUMNS: i64 = 1000;

impl Parts {
    /// The words of `rows`, which have a column of zeros behind them: runs of at least `least` characters
    /// that a mask says belong to words.
    fn words(
        cx: &mut Cx<'_, '_>,
        rows: &Rows,
        is_word: &Value,
        least: i64,
    ) -> Result<Parts, Fault> {
        let was_word = moved(cx, is_word, rows.length, 1)?;
        let [is_between, was_between] =
            [cx.op("logical_not", &[is_word])?, cx.op("logical_not", &[&was_word])?];
        let mut begins = cx.op("logical_and", &[is_word, &was_between])?;
        let mut ends = cx.op("logical_and", &[&is_between, &was_word])?;
        for by in 1..least.min(rows.length) {
            let later = column_range(cx, is_word, by, rows.length)?;
            let none = cx.full(DType::BOOL, &[rows.count, by], 0.0)?;
            let later = cx.concatenate(&[later, none], 1)?;
            begins = cx.op("logical_and", &[&begins, &later])?;
            let earlier = moved(cx, is_word, rows.length, by + 1)?;
            ends = cx.op("logical_and", &[&ends, &earlier])?;
        }
        let (before, until) = (Rows::counted(cx, &begins)?, Rows::counted(cx, &ends)?);
        let number = last_column(cx, &before, rows.length)?;
        Ok(Parts { number, before, until, most: rows.length / 2 + 1 })
    }

    /// The characters of `rows`, which have a column of zeros behind them, of a mask.
    fn characters(cx: &mut Cx<'_, '_>, rows: &Rows, is_one: &Value) -> Result<Parts, Fault> {
        let before = Rows::counted(cx, is_one)?;
        let until = moved(cx, &before, rows.length, 1)?;
        let number = last_column(cx, &before, rows.length)?;
        Ok(Parts { number, before, until, most: rows.length })
    }

    /// The words of `rows`, which have a column of zeros behind them, between blanks.
    fn between_blanks(cx: &mut Cx<'_, '_>, rows: &Rows) -> Result<Parts, Fault> {
        // As Python, which counts the four separators of information as well.
        let is_blank = |c: &char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(c);
        let blanks = ('\0'..='\u{3000}').filter(|c| *c == '\0' || is_blank(c));
        let blanks: Vec<(char, char)> = blanks.map(|blank| (blank, blank)).collect();
        let is_between = rows.within(cx, &blanks)?;
        let is_word = cx.op("logical_not", &[&is_between])?;
        Parts::words(cx, rows, &is_word, 1)
    }

    /// What of `rows`, which have a column of zeros behind them, is between delimiters.
    fn between(
        cx: &mut Cx<'_, '_>,
        rows: &Rows,
        delimiter: &[char],
        limit: Option<i64>,
    ) -> Result<Parts, Fault> {
        let (size, columns) = (delimiter.len() as i64, rows.length);
        let places = (columns - size).max(0);
        let mut found: Option<Value> = None;
        for (at, character) in delimiter.iter().enumerate() {
            let part = column_range(cx, &rows.points, at as i64, at as i64 + places)?;
            let is = cx.with_scalar("equal", &part, f64::from(u32::from(*character)))?;
            found = Some(match found {
                Some(found) => cx.op("logical_and", &[&found, &is])?,
                None => is,
            });
        }
        let Some(mut found) = found else { return Err("expected a delimiter".into()) };
        // Two of them overlap where the end of one may be the begin of another: the first counts.
        if (1..delimiter.len()).any(|at| delimiter[at..] == delimiter[..delimiter.len() - at]) {
            if places > MOST_COLUMNS {
                return Err(format!("expected texts of at most {MOST_COLUMNS} characters").into());
            }
            let mut taken: Vec<Value> = Vec::new();
            for column in 0..places {
                let mut is_taken = column_range(cx, &found, column, column + 1)?;
                for earlier in taken.iter().rev().take(delimiter.len() - 1) {
                    let is_free = cx.op("logical_not", &[earlier])?;
                    is_taken = cx.op("logical_and", &[&is_taken, &is_free])?;
                }
                taken.push(is_taken);
            }
            if !taken.is_empty() {
                found = cx.concatenate(&taken, 1)?;
            }
        }
        let rest = cx.full(DType::BOOL, &[rows.count, columns - places], 0.0)?;
        let found = cx.concatenate(&[found, rest], 1)?;
        let mut begun = Rows::counted(cx, &found)?;
        if let Some(limit) = limit {
            let limit = limit.min(columns);
            begun =
                cx.op_with("clip", &[&begun], attr("a_min", 0.0).with("a_max", &(limit as f64)))?;
        }
        let ended = moved(cx, &begun, columns, size.min(columns))?;
        let before = cx.with_scalar("add", &ended, 1.0)?;
        let number = last_column(cx, &begun, columns)?;
        let number = cx.with_scalar("add", &number, 1.0)?;
        Ok(Parts { number, before, until: begun, most: columns / size + 1 })
    }
}

/// Columns `begin` to `end`.
fn column_range(cx: &mut Cx<'_, '_>, data: &Value, begin: i64, end: i64) -> Result<Value, Fault> {
    let attrs = attr("begin", vec![begin]).with("end", &vec![end]).with("axes", &vec![1i64]);
    cx.op_with("strided_slice", &[data], attrs)
}

fn last_column(cx: &mut Cx<'_, '_>, data: &Value, columns: i64) -> Result<Value, Fault> {
    column_range(cx, data, columns - 1, columns)
}

/// `data` with `by` columns of zeros before it, cut to as many `columns` as it has.
fn moved(cx: &mut Cx<'_, '_>, data: &Value, columns: i64, by: i64) -> Result<Value, Fault> {
    let count = cx.shape(data)?.first().copied().unwrap_or(0);
    let zeros = cx.full(cx.dtype(data)?, &[count, by], 0.0)?;
    let kept = column_range(cx, data, 0, columns - by)?;
    cx.concatenate(&[zeros, kept], 1)
}

/// For each of `most` parts, how many of the columns of `counts` are at most its number: `(count, most)`.
fn at_most(cx: &mut Cx<'_, '_>, counts: &Value, most: i64) -> Result<Value, Fault> {
    let each = cx.expand_dims(counts, 1)?;
    let numbers = cx.int_vector(&(0..most).collect::<Vec<i64>>());
    let numbers = cx.reshape(&numbers, &[most, 1])?;
    let is = cx.op("less_equal", &[&each, &numbers])?;
    let is = cx.cast(&is, DType::INT64)?;
    cx.op_with("sum", &[&is], attr("axis", vec![2i64]))
}

fn split(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = texts(cx, 0)?;
    let (rows, shape) = Rows::of(cx, &data)?;
    let delimiter: Vec<char> = match cx.has_attribute("delimiter") {
        true => cx.text("delimiter", "")?.chars().collect(),
        false => vec![],
    };
    let limit = cx.int_if("maxsplit")?.filter(|limit| *limit >= 0);
    if rows.count == 0 {
        let places = [&shape[..], &[0]].concat();
        let places = cx.full(DType::INT64, &places, 0.0)?;
        let nothing = Value::Texts(Rc::new(Texts { rows: rows.points, places }));
        return Ok(vec![nothing, cx.full(DType::INT64, &shape, 0.0)?]);
    }
    let length = rows.length;
    let lengths = rows.lengths(cx)?;
    let rows = rows.lengthened(cx, length + 1)?;
    let mut parts = match delimiter.is_empty() {
        true => Parts::between_blanks(cx, &rows)?,
        false => Parts::between(cx, &rows, &delimiter, limit)?,
    };
    if let Some(limit) = limit {
        parts.most = parts.most.min(limit.saturating_add(1));
        let most = parts.most as f64;
        let bounds = attr("a_min", 0.0).with("a_max", &most);
        parts.number = cx.op_with("clip", &[&parts.number], bounds)?;
    }
    let (points, _) = parts.taken(cx, &rows, &lengths, limit)?;
    let number = cx.reshape(&parts.number, &shape)?;
    let order = cx.int_vector(&(0..rows.count * parts.most).collect::<Vec<i64>>());
    let texts = parts.texts(cx, points, order, &number, &shape)?;
    Ok(vec![texts, number])
}

impl Parts {
    /// The parts as rows, `(count * most, length)`, without the column of zeros that `rows` have; and
    /// whether each is there, `(count, most)`: those that are not are empty. Part `limit` goes to the end of
    /// the text, of which `lengths` has the place.
    fn taken(
        &self,
        cx: &mut Cx<'_, '_>,
        rows: &Rows,
        lengths: &Value,
        limit: Option<i64>,
    ) -> Result<(Value, Value), Fault> {
        let length = rows.length - 1;
        fits(&[rows.count, self.most, rows.length])?;
        count_texts(&[rows.count, self.most])?;
        let first = at_most(cx, &self.before, self.most)?;
        let mut end = at_most(cx, &self.until, self.most)?;
        let order = columns(cx, self.most)?;
        if let Some(limit) = limit {
            let is_last = cx.with_scalar("greater_equal", &order, limit as f64)?;
            end = cx.op("where", &[&is_last, lengths, &end])?;
        }
        end = cx.op("minimum", &[&end, lengths])?;
        let is_there = cx.op("less", &[&order, &self.number])?;
        let zero = cx.int_scalar(DType::INT64, 0);
        end = cx.op("where", &[&is_there, &end, &zero])?;
        // What is behind the end of a part is the zero behind the text.
        let (first, end) = (cx.expand_dims(&first, 2)?, cx.expand_dims(&end, 2)?);
        let column = columns(cx, length)?;
        let from = cx.op("add", &[&first, &column])?;
        let is_inside = cx.op("less", &[&from, &end])?;
        let nothing = cx.int_scalar(DType::INT64, length);
        let from = cx.op("where", &[&is_inside, &from, &nothing])?;
        let from = cx.reshape(&from, &[rows.count, self.most * length])?;
        let points = cx.op_with("gather", &[&rows.points, &from], attr("axis", 1i64))?;
        Ok((cx.reshape(&points, &[rows.count * self.most, length])?, is_there))
    }

    /// The texts of `shape` and one more axis for the parts, of which as many are kept as one text has;
    /// `places` are those of all parts in `points`.
    fn texts(
        &self,
        cx: &mut Cx<'_, '_>,
        points: Value,
        places: Value,
        number: &Value,
        shape: &[i64],
    ) -> Result<Value, Fault> {
        let places = cx.reshape(&places, &[shape, &[self.most]].concat())?;
        let most = cx.op_with("max", &[number], attrs())?;
        let most = cx.reshape(&most, &[1])?;
        let places = first_rows(cx, &places, &most, shape.len() as i64)?;
        Ok(Value::Texts(Rc::new(Texts { rows: points, places })))
    }
}

/// Tokens that are characters of a class, or runs of them.
struct Tokens {
    ranges: Vec<(char, char)>,
    is_run: bool,
}

/// A class of more ranges is compared too often.
const MOST_RANGES: usize = 1000;

impl Tokens {
    /// Those that the pattern `pattern` matches.
    fn of(pattern: &str) -> Result<Tokens, Fault> {
        let other = || {
            let expected = "expected a class of characters as `tokenexp`, or a repeated one";
            Fault::Message(format!("{expected}, found `{pattern}`"))
        };
        let parsed = regex_syntax::parse(&with_ascii_classes(pattern)).map_err(|_| other())?;
        let (class, is_run) = match parsed.kind() {
            HirKind::Repetition(repeated)
                if (repeated.min, repeated.max, repeated.greedy) == (1, None, true) =>
            {
                (repeated.sub.kind().clone(), true)
            }
            one => (one.clone(), false),
        };
        let ranges: Vec<(char, char)> = match &class {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) if text.chars().count() == 1 => text.chars().map(|c| (c, c)).collect(),
                _ => return Err(other()),
            },
            _ => return Err(other()),
        };
        if ranges.len() > MOST_RANGES {
            return Err(format!("expected a simpler class than `{pattern}`").into());
        }
        // The character 0 stands behind texts.
        let ranges = ranges.into_iter().map(|(first, last)| (first.max('\u{1}'), last)).collect();
        Ok(Tokens { ranges, is_run })
    }
}

fn tokenized(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = texts(cx, 0)?;
    let (rows, shape) = Rows::of(cx, &data)?;
    for (attribute, what) in [("separators", "separators"), ("stopwords", "stopwords")] {
        if cx.texts(attribute)?.is_some_and(|texts| !texts.is_empty()) {
            return Err(format!("expected a `tokenexp`, found {what}").into());
        }
    }
    if cx.flag("mark", false)? {
        return Err("expected no marks, as `mark` 0 says".into());
    }
    let tokens = Tokens::of(cx.text("tokenexp", "")?)?;
    let least = cx.int("mincharnum", 1)?.max(1);
    if least > 1 && !tokens.is_run {
        return Err("expected a repeated class, since one character is too short".into());
    }
    if least > MOST_COLUMNS {
        return Err(
            format!("expected `mincharnum` of at most {MOST_COLUMNS}, found {least}").into()
        );
    }
    if rows.count == 0 {
        let places = cx.full(DType::INT64, &[&shape[..], &[0]].concat(), 0.0)?;
        return Ok(Value::Texts(Rc::new(Texts { rows: rows.points, places })));
    }
    let lengths = rows.lengths(cx)?;
    let length = rows.length + 1;
    let rows = rows.lengthened(cx, length)?;
    let is_one = rows.within(cx, &tokens.ranges)?;
    let parts = match tokens.is_run {
        true => Parts::words(cx, &rows, &is_one, least)?,
        false => Parts::characters(cx, &rows, &is_one)?,
    };
    let (points, is_there) = parts.taken(cx, &rows, &lengths, None)?;
    // Behind all parts stands what fills up rows.
    let filler = Rows::constant(&[cx.text("pad_value", "")?.to_string()])?;
    let width = filler.length.max(rows.length - 1);
    let (points, filler) = (cx.lengthened(&points, width)?, filler.lengthened(cx, width)?);
    let points = cx.concatenate(&[points, filler.points], 0)?;
    let total = rows.count * parts.most;
    let order = cx.int_vector(&(0..total).collect::<Vec<i64>>());
    let order = cx.reshape(&order, &[rows.count, parts.most])?;
    let last = cx.int_scalar(DType::INT64, total);
    let places = cx.op("where", &[&is_there, &order, &last])?;
    parts.texts(cx, points, places, &parts.number, &shape)
}

/// Automata of more states are too large for a table.
const MOST_STATES: usize = 1 << 12;

/// A deterministic automaton over bytes.
struct Table {
    /// For each state and byte the next state; a byte 0, which no text has, is skipped.
    next: Vec<i64>,
    /// For each state whether a text that ends there matches.
    accepts: Vec<i64>,
}

impl Table {
    /// The automaton that matches what `pattern` matches as a whole.
    fn of(pattern: &str) -> Result<Table, Fault> {
        let cannot = |error: &dyn Display| {
            Fault::Message(format!("the pattern `{pattern}` cannot be compiled: {error}"))
        };
        let whole = format!(r"\A(?:{})\z", with_ascii_classes(pattern));
        let limit = Some(MOST_STATES * 256 * 4);
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(limit)
            .determinize_size_limit(limit);
        let automaton = dense::Builder::new()
            .configure(config)
            .syntax(syntax::Config::new().utf8(false))
            .thompson(thompson::Config::new().nfa_size_limit(Some(1 << 24)))
            .build(&whole)
            .map_err(|error| cannot(&reason(&error)))?;
        let begin = start::Config::new().anchored(Anchored::Yes);
        let begin = automaton.start_state(&begin).map_err(|error| cannot(&error))?;
        let (mut numbers, mut states) = (FxHashMap::default(), vec![begin]);
        numbers.insert(begin, 0);
        let mut table = Table { next: Vec::new(), accepts: Vec::new() };
        while let Some(state) = states.get(table.accepts.len()).copied() {
            if automaton.is_quit_state(state) {
                return Err(cannot(&"it needs to know which letters of all languages are words"));
            }
            let end = automaton.next_eoi_state(state);
            table.accepts.push(automaton.is_match_state(end).into());
            let mut to = |next: StateID| {
                *numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() as i64 - 1
                })
            };
            let skipped = to(state);
            table.next.push(skipped);
            table.next.extend((1..=u8::MAX).map(|byte| to(automaton.next_state(state, byte))));
            if states.len() > MOST_STATES {
                return Err(cannot(&"it has too many states"));
            }
        }
        Ok(table)
    }
}

/// Why a pattern cannot be compiled, without the pattern.
fn reason(error: &dyn Error) -> String {
    let mut first = error;
    while let Some(source) = first.source() {
        first = source;
    }
    let text = first.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_string()
}

/// `pattern` with the classes of letters, digits, blanks and word boundaries of RE2, which are of ASCII.
fn with_ascii_classes(pattern: &str) -> String {
    let (mut written, mut characters, mut in_class) = (String::new(), pattern.chars(), 0);
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('w') => written.push_str("[0-9A-Za-z_]"),
                Some('W') => written.push_str("[^0-9A-Za-z_]"),
                Some('d') => written.push_str("[0-9]"),
                Some('D') => written.push_str("[^0-9]"),
                Some('s') => written.push_str(r"[\t\n\f\r ]"),
                Some('S') => written.push_str(r"[^\t\n\f\r ]"),
                Some(boundary @ ('b' | 'B')) if in_class == 0 => {
                    written.push_str(&format!(r"(?-u:\{boundary})"));
                }
                Some(other) => written.extend(['\\', other]),
                None => written.push('\\'),
            },
            _ => {
                match character {
                    '[' => in_class += 1,
                    ']' if in_class > 0 => in_class -= 1,
                    _ => {}
                }
                written.push(character);
            }
        }
    }
    written
}

/// The bytes of `rows` in UTF-8, four for each code point, of which some are 0: `(count, 4 * length)`.
fn bytes(cx: &mut Cx<'_, '_>, rows: &Rows) -> Result<Value, Fault> {
    // The first byte of a code point of more bytes, and the others: the marks, and how far the bits that
    // belong there are moved.
    let forms: [(i64, &[(i64, i64)]); 4] = [
        (0x80, &[(0, 0)]),
        (0x800, &[(0xC0, 6), (0x80, 0)]),
        (0x1_0000, &[(0xE0, 12), (0x80, 6), (0x80, 0)]),
        (0x11_0000, &[(0xF0, 18), (0x80, 12), (0x80, 6), (0x80, 0)]),
    ];
    let mut parts = Vec::new();
    for at in 0..4 {
        let mut part = cx.op("zeros_like", &[&rows.points])?;
        for (limit, form) in forms.iter().rev() {
            let byte = match form.get(at) {
                None => cx.op("zeros_like", &[&rows.points])?,
                Some((mark, shift)) => {
                    let shift = cx.int_scalar(DType::INT32, *shift);
                    let bits = cx.op("right_shift", &[&rows.points, &shift])?;
                    let mask = cx.int_scalar(DType::INT32, if *mark == 0x80 { 0x3F } else { 0x7F });
                    let bits = cx.op("bitwise_and", &[&bits, &mask])?;
                    let mark = cx.int_scalar(DType::INT32, *mark);
                    cx.op("bitwise_or", &[&bits, &mark])?
                }
            };
            let is = cx.with_scalar("less", &rows.points, *limit as f64)?;
            part = cx.op("where", &[&is, &byte, &part])?;
        }
        parts.push(cx.expand_dims(&part, 2)?);
    }
    let bytes = cx.concatenate(&parts, 2)?;
    cx.reshape(&bytes, &[rows.count, 4 * rows.length])
}

fn full_match(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = texts(cx, 0)?;
    let table = Table::of(cx.text("pattern", "")?)?;
    let (rows, shape) = Rows::of(cx, &data)?;
    if rows.count == 0 {
        return cx.full(DType::BOOL, &shape, 0.0);
    }
    let bytes = bytes(cx, &rows)?;
    let vector = |values: &[i64], dtype| {
        let tensor = TensorData::from_i64(dtype, &[values.len() as i64], values);
        tensor.map(Value::Constant).map_err(|error| Fault::Message(error.to_string()))
    };
    let (next, accepts) =
        (vector(&table.next, DType::INT32)?, vector(&table.accepts, DType::BOOL)?);
    let begin = [cx.int_scalar(DType::INT64, 0), cx.full(DType::INT32, &[rows.count], 0.0)?];
    let types = [cx.ty_of(&begin[0]), cx.ty_of(&begin[1])];
    let mut recursion = cx.begin_recursion(&types);
    let state = recursion.state.clone();
    let count = cx.int_scalar(DType::INT64, 4 * rows.length);
    let goes_on = cx.op("less", &[&state[0], &count])?;
    cx.begin_step(&mut recursion, &goes_on);
    let byte = cx.op_with("take", &[&bytes, &state[0]], attr("axis", 1i64))?;
    let row = cx.with_scalar("multiply", &state[1], 256.0)?;
    let at = cx.op("add", &[&row, &byte])?;
    let one = cx.int_scalar(DType::INT64, 1);
    let following = cx.op_with("take", &[&next, &at], attr("axis", 0i64))?;
    let step = [cx.op("add", &[&state[0], &one])?, following];
    let last = cx.end_recursion(recursion, &begin, &step);
    let matches = cx.op_with("take", &[&accepts, &last[1]], attr("axis", 0i64))?;
    cx.reshape(&matches, &shape)
}
