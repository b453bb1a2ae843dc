//! Whether the series of an expression keep a label, by which they meet assets.

use promql_parser::parser::{
    AggregateExpr, BinModifier, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality,
    token::{T_BOTTOMK, T_LAND, T_LIMIT_RATIO, T_LIMITK, T_LOR, T_LUNLESS, T_TOPK},
    value::ValueType,
};

/// Whether the series of an expression can have a label.
pub(super) fn keeps(of: &Expr, label: &str) -> bool {
    match of {
        Expr::Aggregate(it) => aggregate_keeps(it, label),
        Expr::Binary(it) => binary_keeps(it, label),
        Expr::Call(it) => call_keeps(it, label),
        Expr::Paren(it) => keeps(&it.expr, label),
        Expr::Unary(it) => keeps(&it.expr, label),
        Expr::Subquery(it) => keeps(&it.expr, label),
        Expr::VectorSelector(_) | Expr::MatrixSelector(_) => true,
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => false,
    }
}

fn aggregate_keeps(of: &AggregateExpr, label: &str) -> bool {
    // They choose series, and do not make new ones.
    let chooses = matches!(of.op.id(), T_TOPK | T_BOTTOMK | T_LIMITK | T_LIMIT_RATIO);
    match &of.modifier {
        _ if chooses => keeps(&of.expr, label),
        Some(LabelModifier::Include(by)) => has(&by.labels, label) && keeps(&of.expr, label),
        Some(LabelModifier::Exclude(without)) => {
            !has(&without.labels, label) && keeps(&of.expr, label)
        }
        None => false,
    }
}

fn binary_keeps(of: &BinaryExpr, label: &str) -> bool {
    let is_vector = |of: &Expr| of.value_type() == ValueType::Vector;
    let (left, right) = (&*of.lhs, &*of.rhs);
    let (left_keeps, right_keeps) = (keeps(left, label), keeps(right, label));
    if !is_vector(left) || !is_vector(right) {
        return left_keeps || right_keeps;
    }
    match of.op.id() {
        T_LOR => return left_keeps && right_keeps,
        T_LAND | T_LUNLESS => return left_keeps,
        _ => {}
    }
    let plain = BinModifier::default();
    let modifier = of.modifier.as_ref().unwrap_or(&plain);
    match &modifier.card {
        VectorMatchCardinality::ManyToOne(more) => {
            left_keeps || (has(&more.labels, label) && right_keeps)
        }
        VectorMatchCardinality::OneToMany(more) => {
            right_keeps || (has(&more.labels, label) && left_keeps)
        }
        _ => match &modifier.matching {
            Some(LabelModifier::Include(on)) => has(&on.labels, label) && left_keeps,
            Some(LabelModifier::Exclude(ignored)) => !has(&ignored.labels, label) && left_keeps,
            None => left_keeps && right_keeps,
        },
    }
}

fn call_keeps(of: &Call, label: &str) -> bool {
    let mut arguments = of.args.args.iter();
    match of.func.name {
        "scalar" | "time" | "pi" | "vector" => false,
        "label_replace" | "label_join" => makes(of, label) || arguments.any(|it| keeps(it, label)),
        _ => arguments.any(|it| keeps(it, label)),
    }
}

/// Whether a call puts a value into a label, which its second argument names.
fn makes(of: &Call, label: &str) -> bool {
    let named = of.args.args.get(1);
    named.is_some_and(|it| matches!(&**it, Expr::StringLiteral(it) if it.val == label))
}

fn has(labels: &[String], label: &str) -> bool {
    labels.iter().any(|it| it == label)
}
