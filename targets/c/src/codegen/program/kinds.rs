//! Kinds of objects, and what they look like.

use indexmap::IndexMap;
use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type};
use prog::columns::{Layout, Part};
use prog::data::Declaration;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use target_core::package::c::comment;

use super::runtime::TYPES;
use super::{c_type, tensor_bytes};

/// What stands before the elements of a tensor.
pub(super) const HEADER: usize = 64;

/// The kinds of a program. The constructors of a data type have numbers one after the other, in order,
/// so that the number of an object's kind tells its constructor.
pub(super) struct Kinds {
    /// The first kind of each data type, and its constructors.
    data: IndexMap<Symbol, (usize, Declaration), FxBuildHasher>,
    /// The kinds of cells, by what they hold.
    cells: IndexMap<Vec<Type>, usize, FxBuildHasher>,
    /// The kinds of tensors, by their bytes.
    tensors: FxHashMap<usize, usize>,
    /// The first of the kinds of tensors whose extents are not known, one for each size of memory: 64
    /// bytes, and each twice as many as the one before.
    open: Option<usize>,
    /// By kind: how many addresses of objects follow its header.
    parts: Vec<usize>,
}

/// How many sizes of memory there are for tensors whose extents are not known.
pub(super) const OPEN_SIZES: usize = 30;

/// See [`Kinds::descriptions`].
const DESCRIPTIONS: &str = "
/* A field: a scalar (0), a tensor (1), data of a type (2), a cell of a kind (3), or a tensor with its
   extents (4). */
typedef struct P_field {
    uint32_t sort;
    size_t at;
    size_t owner;
    size_t bytes;
    uint32_t type;
} P_field;

/* What the columns of a type are: the column of each field, and the bytes of their elements. */
typedef struct P_described {
    P_field root;
    uint32_t count;
    const uint32_t *columns;
    const size_t *bytes;
} P_described;

/* By kind: its fields, those last that are data or cells. */
static const uint32_t P_first_field[] = {FIRSTS};
static const uint32_t P_first_link[] = {LINKS};
static const P_field P_fields[] = {
    FIELDS
};
/* By type of data: its first kind. */
static const uint32_t P_first_kind[] = {TYPES};
";

/// See [`Kinds::sizes`].
const SIZES: &str = "
/* By kind: its size. By type of data: how many kinds there are. */
static const size_t P_sizes[] = {SIZES};
static const uint32_t P_constructors[] = {COUNTS};
";

/// The name of field `index` of an object, and the address that owns its tensor.
pub(super) fn field(index: usize) -> String {
    format!("f{index}")
}

/// What is an address of an object in a field of type `ty`: all of it, its owner, or nothing.
fn is_object(ty: Type) -> bool {
    prog::is_counted(ty)
}

impl Kinds {
    pub(super) fn of(module: &Module) -> Result<Kinds, Diagnostics> {
        let mut kinds = Kinds {
            data: IndexMap::default(),
            cells: IndexMap::default(),
            tensors: FxHashMap::default(),
            open: None,
            parts: Vec::new(),
        };
        for (name, item) in &module.items {
            if let Some(declaration) = Declaration::of_item(&item.signature) {
                let first = kinds.parts.len();
                for constructor in &declaration.constructors {
                    kinds.parts.push(parts(&constructor.fields));
                }
                kinds.data.insert(*name, (first, declaration));
            }
        }
        let mut errors = Diagnostics::new();
        let mut has_open = false;
        for (name, body) in prog::sites::functions(module) {
            let blocks = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
            let results = body.walk().flat_map(|op| body.results(op));
            for value in blocks.chain(results) {
                let ty = body.ty(value);
                if let Some(held) = prog::contents(ty) {
                    kinds.cell(&held);
                } else if prog::is_open(ty) {
                    has_open = true;
                } else if ty.as_tensor().is_some() {
                    let Some(bytes) = tensor_bytes(ty) else {
                        let message = format!(
                            "`@{name}` has a value of type {ty}, and C takes \
                                               tensors of known extents"
                        );
                        errors.push(Diagnostic::error("E0902", message));
                        continue;
                    };
                    let next = kinds.parts.len();
                    let bytes = bytes.next_multiple_of(HEADER);
                    if *kinds.tensors.entry(bytes).or_insert(next) == next {
                        kinds.parts.push(0);
                    }
                }
            }
        }
        for (_, declaration) in kinds.data.clone().into_values() {
            let fields = declaration.constructors.iter().flat_map(|one| &one.fields);
            fields.filter_map(|ty| prog::contents(*ty)).for_each(|held| kinds.cell(&held));
        }
        if has_open {
            kinds.open = Some(kinds.parts.len());
            kinds.parts.resize(kinds.parts.len() + OPEN_SIZES, 0);
        }
        if errors.is_empty() { Ok(kinds) } else { Err(errors) }
    }

    /// Gives cells that hold `held`, and those in them, kinds.
    fn cell(&mut self, held: &[Type]) {
        let mut pending = vec![held.to_vec()];
        while let Some(held) = pending.pop() {
            if !self.cells.contains_key(&held) {
                pending.extend(held.iter().filter_map(|ty| prog::contents(*ty)));
                self.cells.insert(held.clone(), self.parts.len());
                self.parts.push(parts(&held));
            }
        }
    }

    /// How many kinds there are.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The first kind of data of type `ty`, and its constructors.
    ///
    /// # Panics
    /// Of types that the program does not declare, which the verifier refuses.
    pub(super) fn data(&self, ty: Type) -> (usize, &Declaration) {
        let name = prog::data::name(ty);
        let found = name.and_then(|name| self.data.get(&name));
        let (first, declaration) = found.expect("data is of a data type that is declared");
        (*first, declaration)
    }

    /// The kind of a cell that holds `held`.
    pub(super) fn of_cell(&self, held: &[Type]) -> usize {
        *self.cells.get(held).expect("all cells have kinds")
    }

    /// The kind of tensors of `bytes` bytes, and the bytes that one takes.
    pub(super) fn of_tensor(&self, bytes: usize) -> (usize, usize) {
        let bytes = bytes.next_multiple_of(HEADER);
        (*self.tensors.get(&bytes).expect("all tensors have kinds"), HEADER + bytes)
    }

    /// The first kind of tensors whose extents are not known; `None` where the program has none.
    pub(super) fn open(&self) -> Option<usize> {
        self.open
    }

    /// Which of the data types `ty` is.
    fn data_type(&self, ty: Type) -> Option<usize> {
        self.data.get_index_of(&prog::data::name(ty)?)
    }

    /// By kind: the types of its fields; none of tensors.
    fn fields(&self) -> FxHashMap<usize, &[Type]> {
        let of_data = self.data.values().flat_map(|(first, declaration)| {
            let constructors = declaration.constructors.iter().enumerate();
            constructors.map(move |(tag, constructor)| (first + tag, &constructor.fields[..]))
        });
        let of_cells = self.cells.iter().map(|(held, kind)| (*kind, &held[..]));
        of_data.chain(of_cells).collect()
    }

    /// What is called what walks over data need to know of a value of type `ty`.
    pub(super) fn described(&self, prefix: &str, ty: Type) -> String {
        match self.data_type(ty) {
            Some(data) => format!("{prefix}data_{data}"),
            None => format!("{prefix}cell_{}", self.of_cell(&held(ty))),
        }
    }

    /// What walks over data need to know: of each kind its size and its fields, and what the columns
    /// are of the types that have `layouts`.
    pub(super) fn descriptions(&self, prefix: &str, layouts: &[&Layout]) -> String {
        let known = self.fields();
        let (mut firsts, mut links) = (Vec::new(), Vec::new());
        let mut fields: Vec<String> = Vec::new();
        // By kind: which of all fields each of its own is.
        let mut places: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for kind in 0..self.count() {
            firsts.push(fields.len().to_string());
            let types = known.get(&kind).copied().unwrap_or_default(); // Tensors have none.
            let name = format!("{prefix}kind_{kind}");
            let mut own = vec![0; types.len()];
            for is_link in [false, true] {
                if is_link {
                    links.push(fields.len().to_string());
                }
                for (index, ty) in types.iter().enumerate() {
                    if ty.as_tensor().is_none() == is_link {
                        own[index] = fields.len();
                        fields.push(self.description(&name, index, *ty));
                    }
                }
            }
            places.insert(kind, own);
        }
        firsts.push(fields.len().to_string());
        let count = fields.len();
        let types: Vec<String> = self.data.values().map(|(first, _)| first.to_string()).collect();
        let fields = if fields.is_empty() { vec!["{0, 0, 0, 0, 0}".to_string()] } else { fields };
        let mut text = DESCRIPTIONS
            .replace("FIRSTS", &list(firsts))
            .replace("LINKS", &list(links))
            .replace("FIELDS", &fields.join(",\n    "))
            .replace("TYPES", &list(types))
            .replace("P_", prefix);
        let mut written = FxHashSet::default();
        for layout in layouts {
            let name = self.described(prefix, layout.sorts[0].ty);
            if written.insert(name.clone()) {
                text += &self.columns(prefix, &name, layout, &places, count);
            }
        }
        text
    }

    /// What who makes data needs to know besides.
    pub(super) fn sizes(&self, prefix: &str) -> String {
        let known = self.fields();
        let size = |kind: usize| match known.contains_key(&kind) {
            true => format!("sizeof({prefix}kind_{kind})"),
            false => "0".to_string(),
        };
        let counts =
            self.data.values().map(|(_, declared)| declared.constructors.len().to_string());
        SIZES
            .replace("{SIZES}", &format!("{{{}}}", list((0..self.count()).map(size).collect())))
            .replace("COUNTS", &list(counts.collect()))
            .replace("P_", prefix)
    }

    /// What the columns of `layout` are; there are `count` fields in all, and `places` says by kind which
    /// are its own.
    fn columns(
        &self,
        prefix: &str,
        name: &str,
        layout: &Layout,
        places: &FxHashMap<usize, Vec<usize>>,
        count: usize,
    ) -> String {
        let mut columns = vec![0; count];
        for sort in &layout.sorts {
            let first = match self.data_type(sort.ty) {
                Some(data) => self.data[data].0,
                None => self.of_cell(&held(sort.ty)),
            };
            for (tag, parts) in sort.constructors.iter().enumerate() {
                for (part, place) in parts.iter().zip(&places[&(first + tag)]) {
                    if let Part::Tensor(column) = part {
                        columns[*place] = *column;
                    }
                }
            }
        }
        let columns = list(columns.iter().map(usize::to_string).collect());
        let bytes = list(layout.columns.iter().map(|column| column.bytes().to_string()).collect());
        let (count, root) = (layout.columns.len(), layout.sorts[0].ty);
        let root = match self.data_type(root) {
            Some(data) => format!("{{2, 0, 0, 0, {data}}}"),
            None => format!("{{3, 0, 0, 0, {}}}", self.of_cell(&held(root))),
        };
        format!(
            "
static const uint32_t {name}_columns[] = {{{columns}}};
static const size_t {name}_bytes[] = {{{bytes}}};
static const {prefix}described {name} = {{{root}, {count}, {name}_columns, {name}_bytes}};
"
        )
    }

    /// What field `index` of the structure `name` is.
    fn description(&self, name: &str, index: usize, ty: Type) -> String {
        let at = format!("offsetof({name}, f{index})");
        match (ty.as_tensor(), self.data_type(ty)) {
            (Some(_), _) if prog::is_open(ty) => {
                format!("{{4, {at}, offsetof({name}, owner{index}), 8u, 0}}")
            }
            (Some(_), _) => {
                let bytes = tensor_bytes(ty).expect("tensors have known extents");
                match is_object(ty) {
                    true => format!("{{1, {at}, offsetof({name}, owner{index}), {bytes}u, 0}}"),
                    false => format!("{{0, {at}, 0, {bytes}u, 0}}"),
                }
            }
            (None, Some(data)) => format!("{{2, {at}, 0, 0, {data}}}"),
            (None, None) => format!("{{3, {at}, 0, 0, {}}}", self.of_cell(&held(ty))),
        }
    }

    /// What objects look like.
    pub(super) fn declarations(&self, prefix: &str) -> String {
        let mut text = TYPES.replace("P_", prefix);
        for (name, (first, declaration)) in &self.data {
            for (tag, constructor) in declaration.constructors.iter().enumerate() {
                let comment = comment(&format!("{} of {name}", constructor.name));
                text += &format!("\n/* {comment} */\n");
                text += &structure(prefix, first + tag, &constructor.fields);
            }
        }
        for (held, kind) in &self.cells {
            text += "\n/* A cell. */\n";
            text += &structure(prefix, *kind, held);
        }
        text
    }

    /// By kind: how many addresses of objects follow its header, as a list.
    pub(super) fn part_counts(&self) -> String {
        list(self.parts.iter().map(usize::to_string).collect())
    }
}

/// What a cell of type `ty` holds.
fn held(ty: Type) -> Vec<Type> {
    prog::contents(ty).expect("what is no tensor and no data is a cell")
}

/// The elements of an array of C, which has at least one.
fn list(items: Vec<String>) -> String {
    match items.is_empty() {
        true => "0".to_string(),
        false => items.join(", "),
    }
}

/// How many addresses of objects the fields have.
fn parts(fields: &[Type]) -> usize {
    fields.iter().filter(|ty| is_object(**ty)).count()
}

/// The structure of an object of `kind` with `fields`: addresses of objects come first. Of a tensor
/// that is the owner, and its data comes later.
fn structure(prefix: &str, kind: usize, fields: &[Type]) -> String {
    let mut text = format!("typedef struct {prefix}kind_{kind} {{\n    {prefix}object head;\n");
    for (index, ty) in fields.iter().enumerate().filter(|(_, ty)| is_object(**ty)) {
        let name = if ty.as_tensor().is_some() { "owner" } else { "f" };
        text += &format!("    {prefix}object *{name}{index};\n");
    }
    for (index, ty) in fields.iter().enumerate().filter(|(_, ty)| ty.as_tensor().is_some()) {
        match is_object(*ty) {
            true => text += &format!("    unsigned char *f{index};\n"),
            false => text += &format!("    {} f{index};\n", c_type(prefix, *ty)),
        }
    }
    if parts(fields) == 0 {
        // The memory of what is free holds an address.
        text += &format!("    {prefix}object *unused;\n");
    }
    text + &format!("}} {prefix}kind_{kind};\n")
}
