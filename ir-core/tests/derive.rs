//! The derive macros: one declaration serves as view, builder, relation input and documentation.

use ir_core::pass::PassInstance;
use ir_core::{
    Attr, AttrDict, AttrGroup, AttrValue, Body, DType, FuncMut, FunctionPass, InferCx, InsertPoint,
    Loc, Module, Op, OpFields, Pass, PassContext, PassResult, Registry, Signature, Stop, Symbol,
    Type, ValueId,
};

/// Scales.
///
/// Second paragraph.
#[derive(Op, Debug, PartialEq)]
#[op(name = "t.scale", traits(COMMUTATIVE), infer = scale_relation, hooks(7u8))]
struct Scale<V = ValueId> {
    /// What.
    data: V,
    /// By how much.
    #[default(2.0)]
    factor: f64,
    /// Required.
    axes: Vec<i64>,
    #[default(None)]
    #[key = "out.dtype"]
    out_dtype: Option<DType>,
    rest: Option<V>,
}

fn scale_relation(op: Scale<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    if op.axes.is_empty() { Err(Stop::error("no axes")) } else { Ok(op.data) }
}

#[test]
fn fields_encode_and_decode() {
    let scale =
        Scale { data: 1, factor: 2.0, axes: vec![0], out_dtype: Some(DType::INT8), rest: None };
    let attrs = scale.attrs();
    assert_eq!(attrs.entries().len(), 2, "defaults are left out: {attrs:?}");
    assert_eq!(Scale::decode(&[1], attrs), Ok(scale));
    assert!(Scale::decode(&[1], AttrDict::empty()).unwrap_err().contains("`axes`"));
    assert!(Scale::<i32>::decode(&[], attrs).unwrap_err().contains("operand `data`"));
    assert!(Scale::decode(&[1, 2, 3], attrs).is_err());
    assert_eq!(Scale::decode(&[1, 2], attrs).map(|op| op.rest), Ok(Some(2)));
}

#[test]
fn definitions_normalize_attributes() {
    let info = <Scale as Op>::info();
    assert_eq!(info.hook::<u8>(), Some(&7));
    assert_eq!(info.def.doc, "Scales.\n\nSecond paragraph.");
    let given = AttrDict::empty()
        .with("factor", &2i64)
        .with("axes", &vec![1i64])
        .with("out.dtype", &"int8".to_string());
    let attrs = info.def.normalize_attrs(given).unwrap();
    assert_eq!(attrs.get("factor"), None);
    assert_eq!(attrs.get("out.dtype"), Some(DType::INT8.to_attr()));
    let errors = info.def.normalize_attrs(AttrDict::empty().with("axis", &Attr::of(&1i64)));
    assert_eq!(
        errors.unwrap_err(),
        [
            "`t.scale` has no attribute `axis`; did you mean `axes`?",
            "`t.scale` needs the attribute `axes`, a list",
        ]
    );
}

/// Where windows are.
#[derive(AttrGroup, Clone, Debug, PartialEq)]
struct Windows<const RANK: usize> {
    /// Their distance.
    #[default(vec![1; RANK])]
    strides: Vec<i64>,
    #[flatten]
    margins: Margins,
    /// Whether a last one may be cut off.
    #[default(false)]
    #[key = "ceil-mode"]
    ceil_mode: bool,
}

/// What is around them.
#[derive(AttrGroup, Clone, Debug, PartialEq)]
struct Margins {
    /// How much.
    padding: i64,
}

/// The greatest element of each window.
#[derive(Op, Debug, PartialEq)]
#[op(name = "t.greatest")]
struct Greatest<V = ValueId> {
    data: V,
    #[default(0)]
    least: i64,
    #[flatten]
    windows: Windows<2>,
    #[default(None)]
    out_dtype: Option<DType>,
}

#[test]
fn the_attributes_of_a_group_stand_in_its_place() {
    let def = <Greatest as Op>::info().def;
    let names: Vec<&str> = def.attrs.iter().map(|field| field.name).collect();
    assert_eq!(names, ["least", "strides", "padding", "ceil-mode", "out_dtype"]);
    assert_eq!(def.attr("padding").map(|field| field.doc), Some("How much."));

    let windows = Windows { strides: vec![1, 1], margins: Margins { padding: 0 }, ceil_mode: true };
    let greatest = Greatest { data: 1, least: 0, windows, out_dtype: None };
    let attrs = greatest.attrs();
    assert_eq!(attrs.get("strides"), None, "the default of two axes is left out: {attrs:?}");
    assert_eq!(attrs.entries().len(), 2, "{attrs:?}");
    assert_eq!(Greatest::decode(&[1], attrs), Ok(greatest));

    let error = Greatest::decode(&[1], AttrDict::empty()).unwrap_err();
    assert_eq!(error, "`t.greatest` needs the attribute `padding`, an integer");
    let error = Greatest::decode(&[1], attrs.with("padding", &"x".to_string())).unwrap_err();
    assert_eq!(error, "attribute `padding` of `t.greatest` expects an integer");
}

/// Doubles every scale.
#[derive(Pass)]
#[pass(name = "double-scales", function)]
struct DoubleScales {
    /// Times this.
    #[default(2.0)]
    scale_by: f64,
}

impl FunctionPass for DoubleScales {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Scale>() {
            let Some(scale) = f.view::<Scale>(op) else { continue };
            let at = InsertPoint::Before(op);
            let new = f.build(
                at,
                Loc::UNKNOWN,
                &Scale { factor: scale.factor * self.scale_by, ..scale },
            )?;
            f.replace(op, new);
            cx.count("doubled", 1);
        }
        Ok(())
    }
}

#[test]
fn a_pass_edits_a_function() {
    let mut registry = Registry::new();
    registry.op::<Scale>();
    registry.pass::<DoubleScales>();
    let mut body = Body::new();
    let entry = body.entry();
    let x = body.add_block_arg(entry, Type::scalar(DType::FLOAT32));
    let signatures = Module::new().signatures();
    let mut signature = Signature {
        op: Symbol::new("t.func"),
        ty: Type::unknown(),
        attrs: AttrDict::empty(),
        span: None,
    };
    let mut f = FuncMut {
        name: Symbol::new("main"),
        signature: &mut signature,
        body: &mut body,
        signatures: &signatures,
        registry: &registry,
    };
    let scale = Scale { data: x, factor: 2.0, axes: vec![0], out_dtype: None, rest: None };
    f.build(InsertPoint::End(entry), Loc::UNKNOWN, &scale).unwrap();
    let error = f.build(InsertPoint::End(entry), Loc::UNKNOWN, &Scale { axes: vec![], ..scale });
    let error = error.unwrap_err();
    assert_eq!((error[0].code, error[0].message.as_str()), ("E0101", "`t.scale`: no axes"));
    let edits = f.body.edits();
    let mut cx = PassContext::new(&registry, 1);
    let def = registry.find_pass("double-scales").unwrap();
    let pass = match (def.make)(&[("scale-by".into(), "4".into())]) {
        Ok(PassInstance::Function(pass)) => pass,
        _ => panic!("a function pass"),
    };
    pass.run(&mut f, &mut cx).unwrap();
    assert!(f.body.edits() > edits);
    let scales = f.all::<Scale>();
    assert_eq!(scales.len(), 1);
    assert_eq!(f.view::<Scale>(scales[0]).map(|scale| scale.factor), Some(8.0));
    assert_eq!(cx.statistics["doubled"], 1);
    let error = (def.make)(&[("scaleby".into(), "4".into())]).err();
    assert_eq!(
        error.as_deref(),
        Some("pass `double-scales` has no option `scaleby`; did you mean `scale-by`?")
    );
    assert!((def.make)(&[("scale-by".into(), "x".into())]).is_err());
}
