"""Bugs planted one at a time in a copy of the package: the tests named beside each must fail.

    python tests/mutants.py              every mutant, two at a time; exit code 1 if one survives
    python tests/mutants.py rollout ig   those whose name holds one of the words

A mutant is data: a file of src/heedful, a text that occurs in it exactly once, what stands there instead, and
the tests that must notice. It is caught when a test fails; a test that cannot be collected proves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "heedful"
CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    file: str  # under src/heedful
    old: str
    new: str
    tests: str  # what pytest is given, under tests/, separated by blanks

    def applied(self) -> str:
        """The file with the bug in it."""
        text = (SOURCE / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.old!r} occurs {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)


MUTANTS = (
    # what was already written
    Mutant(
        "written: the start token counts as written",
        "models/tracing.py",
        "(out.answer_embeds, 1)",
        "(out.answer_embeds, 0)",
        "explainers/test_written.py::test_gradients_are_autograds",
    ),
    Mutant(
        "written: the path starts at the tokens themselves",
        "explainers/paths.py",
        "model.lookup_written(target, behind, baseline)",
        "model.lookup_written(target)",
        "explainers/test_written.py::test_integrated_gradients_are_complete_over_text_and_written",
    ),
    Mutant(
        "written: never removed",
        "models/tokens.py",
        "replace(row, written=part(gone=some)) if some else row",
        "row",
        "explainers/test_written.py::test_occlusion_really_removes_what_was_written",
    ),
    Mutant(
        "written: hidden tokens are seen",
        "models/batch.py",
        "seen[_indices(hidden)] = 0",
        "seen[_indices(())] = 0",
        "explainers/test_written.py::test_occlusion_really_removes_what_was_written",
    ),
    Mutant(
        "written: Chefer's identity is left in",
        "explainers/relevance.py",
        "readout @ (r_aa - eye)",
        "readout @ r_aa",
        "explainers/test_written.py::test_chefers_rules_by_hand",
    ),
    Mutant(
        "written: the share counts special tokens",
        "input_share.py",
        "ordinary = _ordinary(item.x) * sizes",
        "ordinary = sizes",
        "test_input_share.py::test_by_hand",
    ),
    Mutant(
        "written: errors are lost on disk",
        "store.py",
        '_errors(part, x, data["method"])',
        "None",
        "test_input_share.py::test_a_run_folder_keeps_it",
    ),
    # gradients
    Mutant(
        "grad-l2: sum of squares without the root",
        "explainers/gradients.py",
        "grads.norm(p=2, dim=-1)",
        "grads.square().sum(-1)",
        "explainers/test_first.py",
    ),
    Mutant(
        "grad-x-input: sign",
        "explainers/gradients.py",
        "lambda grads, embeds: (grads * embeds).sum(-1)",
        "lambda grads, embeds: -(grads * embeds).sum(-1)",
        "explainers/test_first.py",
    ),
    Mutant(
        "one-layer: detached gradient of the query",
        "nn/one_layer.py",
        'torch.einsum("kad,bd->bka", self.query, e[:, 0])',
        'torch.einsum("kad,bd->bka", self.query, e[:, 0].detach())',
        "explainers/test_exact.py",
    ),
    Mutant(
        "verdict: one metric one voice",
        "evidence/shares.py",
        "    found: Floats = np.mean(parts, axis=0)\n",
        "    found: Floats = per_cell.mean(-1)\n",
        "evidence/test_verdict.py::test_near_twins_speak_with_one_voice",
    ),
    Mutant(
        "verdict: rounding decides",
        "evidence/shares.py",
        "np.diff(ranked) > step",
        "np.diff(ranked) > 0",
        "evidence/test_verdict.py::test_one_rounding_step_is_no_claim",
    ),
    Mutant(
        "verdict: rounding of scores makes an order",
        "evidence/faithfulness.py",
        "np.argsort(-merged_scores(scores)[shuffled]",
        "np.argsort(-scores[shuffled]",
        "evidence/test_faithfulness.py",
    ),
    Mutant(
        "verdict: the test is not robust",
        "evidence/exchange.py",
        "np.maximum(variance, np.square(chosen).sum(1))",
        "np.maximum(variance, 0 * np.square(chosen).sum(1))",
        "evidence/test_verdict.py::test_right_on_half_and_the_reverse_on_the_others_is_not_better",
    ),
    Mutant(
        "verdict: the method never changes places with itself",
        "evidence/exchange.py",
        "rng.integers(members, size=",
        "rng.integers(1, members, size=",
        "evidence/test_verdict.py::test_p_is_the_share_of_all_exchanges",
    ),
    Mutant(
        "verdict: many methods, no correction",
        "evidence/exchange.py",
        "p[order] * np.arange(len(p), 0, -1)",
        "p[order] * 1.0",
        "evidence/test_verdict.py::test_holm_is_closed_testing_with_bonferroni",
    ),
    Mutant(
        "verdict: methods are compared on few texts",
        "evidence/verdict.py",
        "compared = len(z) >= MIN_COMPARED",
        "compared = len(z) >= MIN_TEXTS",
        "evidence/test_verdict.py::test_below_twenty_texts_nothing_is_said_between_methods",
    ),
    Mutant(
        "verdict: a gap without its error",
        "evidence/best.py",
        "least = mean - reach if sparse is None",
        "least = mean if sparse is None",
        "evidence/test_verdict.py::test_the_decision_by_hand",
    ),
    Mutant(
        "verdict: a level four times too large",
        "evidence/best.py",
        "quantile = 1 - level",
        "quantile = 1 - 4 * level",
        "evidence/test_verdict.py::test_many_methods_are_compared_as_dunnett_does",
    ),
    Mutant(
        "verdict: a method is judged by what fitted it",
        "evidence/verdict.py",
        "free = tuple(op for op in operators if not fitted[op])",
        "free = tuple(operators)",
        "evidence/test_verdict.py::test_operators_that_fitted_nothing_judge",
    ),
    Mutant(
        "verdict: an unknown cost is no cost",
        "evidence/verdict.py",
        "math.inf if math.isnan(one.inputs) else one.inputs",
        "0 if math.isnan(one.inputs) else one.inputs",
        "evidence/test_verdict.py::test_of_methods_as_good_the_one_with_fewest_model_inputs_is_used",
    ),
    Mutant(
        "until decided: bets on being worse",
        "evidence/sequential.py",
        "/ (n + 2)), 0.0, MOST_BET)",
        "/ (n + 2)), -MOST_BET, MOST_BET)",
        "evidence/test_verdict.py::test_the_stakes_are_those_of_the_formula",
    ),
    Mutant(
        "until decided: intervals of one look",
        "evidence/sequential.py",
        "np.log(np.sqrt(grown) / (2 * level) + 1)",
        "np.log(1 / (2 * level) + 1) / 2",
        "evidence/test_verdict.py::test_intervals_at_all_times_hold_at_all_times",
    ),
    Mutant(
        "audit: copies count",
        "auditing/source.py",
        "yield row if first == row.number else replace(row, copy_of=first)",
        "yield row",
        "test_audit_verdict.py::test_copies_count_once",
    ),
    Mutant(
        "audit: rows as the file has them",
        "auditing/source.py",
        "_shuffled(source, seed, window) if source.again else source.rows()",
        "source.rows()",
        "test_audit_verdict.py::test_texts_come_in_random_order",
    ),
    Mutant(
        "rows: what fitted a method is not recorded",
        "rows.py",
        "        record(operator)\n    return masks",
        "        pass\n    return masks",
        "test_audit_verdict.py::test_what_it_was_fitted_by_keeps_an_operator_from_judging",
    ),
    Mutant(
        "one text: as well is beaten",
        "evidence/one_text.py",
        "int((w[1:] >= w[0]).sum())",
        "int((w[1:] > w[0]).sum())",
        "evidence/test_one_text.py",
    ),
    Mutant(
        "gradient-exact: the query's own path forgotten",
        "explainers/exact.py",
        'grad[0] += torch.einsum("kad,ka->d", q_weight, pulled)',
        'grad[0] += 0 * torch.einsum("kad,ka->d", q_weight, pulled)',
        "explainers/test_exact.py",
    ),
    Mutant(
        "ig: wrong interval",
        "explainers/paths.py",
        "panels = [(k / PANELS, (k + 1) / PANELS) for k in range(PANELS)]",
        "panels = [(0.0, 0.5), (0.5, 1.0), (0.5, 1.0)]",
        "explainers/test_paths.py",
    ),
    Mutant(
        "ig: nodes without their weights",
        "explainers/paths.py",
        "(b - a) / 6 * (at[a] + 4 * at[(a + b) / 2] + at[b])",
        "(b - a) / 3 * (at[a] + at[(a + b) / 2] + at[b])",
        "explainers/test_paths.py",
    ),
    Mutant(
        "ig: times the text instead of the difference",
        "explainers/paths.py",
        "return values.cpu().numpy(), ((text - base).double() * grads.double())",
        "return values.cpu().numpy(), (text.double() * grads.double())",
        "explainers/test_paths.py",
    ),
    Mutant(
        "ig: special tokens replaced in the baseline",
        "explainers/paths.py",
        "content = [t for t, special in enumerate(x.special) if not special]",
        "content = list(range(len(x)))",
        "explainers/test_paths.py",
    ),
    Mutant(
        "smoothgrad: spread instead of standard error",
        "explainers/paths.py",
        "error = each.std(0) / len(each) ** 0.5",
        "error = each.std(0)",
        "explainers/test_smoothgrad_pairs.py",
    ),
    Mutant(
        "smoothgrad: neighbours instead of antithetic pairs",
        "explainers/paths.py",
        ".reshape(2, -1, len(text)).mean(0)",
        ".reshape(-1, 2, len(text)).mean(1)",
        "explainers/test_smoothgrad_pairs.py",
    ),
    Mutant(
        "guided backprop: negative gradients pass",
        "models/guided_relu.py",
        "grad.clamp_min(0), 0.0)",
        "grad, 0.0)",
        "explainers/test_guided.py",
    ),
    Mutant(
        "guided backprop: functional ReLUs keep their gradient",
        "models/guided_relu.py",
        "RELUS = {functional.relu, torch.relu, Tensor.relu}",
        "RELUS = {functional.relu, Tensor.relu}",
        "explainers/test_guided.py",
    ),
    Mutant(
        "guided backprop: a ReLU in place changes nothing",
        "models/guided_relu.py",
        "x.copy_(out) if in_place else out",
        "out",
        "explainers/test_guided.py",
    ),
    # precision
    Mutant(
        "float64: rounding of the softmax hides that attention can be edited",
        "models/hf.py",
        "for dtype in (some.dtype, torch.float32)) ** 0.5",
        "for dtype in (some.dtype,)) ** 0.5",
        "models/test_precision.py",
    ),
    Mutant(
        "float64: a row that sees nothing is NaN",
        "models/scoped.py",
        "with _FiniteSoftmax() if double else nullcontext():",
        "with nullcontext():",
        "models/test_precision.py",
    ),
    # attention
    Mutant(
        "attention: column of the read-out for its row",
        "explainers/attention.py",
        '"q,hqs->hs"',
        '"s,hqs->hq"',
        "explainers/test_first.py",
    ),
    Mutant(
        "attention-max: smallest head",
        "explainers/attention.py",
        ".amax(0)",
        ".amin(0)",
        "explainers/test_first.py",
    ),
    Mutant(
        "rollout: rows not normalised",
        "theory/mixing.py",
        "return np.asarray(mean / mean.sum(-1, keepdims=True))",
        "return mean",
        "explainers/test_rollout.py",
    ),
    Mutant(
        "rollout: columns normalised (wrong axis)",
        "theory/mixing.py",
        "mean / mean.sum(-1, keepdims=True)",
        "mean / mean.sum(0, keepdims=True)",
        "explainers/test_rollout.py",
    ),
    Mutant(
        "rollout: residual forgotten",
        "theory/mixing.py",
        "mean = mean + np.eye(",
        "mean = mean + 0 * np.eye(",
        "explainers/test_rollout.py",
    ),
    Mutant(
        "rollout: layers in reverse",
        "explainers/rollout.py",
        "for layer in trace.attentions), readout]",
        "for layer in trace.attentions[::-1]), readout]",
        "explainers/test_rollout.py",
    ),
    Mutant(
        "flow: capacities without the residual",
        "theory/mixing.py",
        "mean = mean + np.eye(",
        "mean = mean + 0 * np.eye(",
        "explainers/test_flow_residual.py",
    ),
    Mutant(
        "flow: edges that come back over the cut counted",
        "theory/mixing.py",
        "reached[net.tails] & ~reached[net.heads]",
        "reached[net.tails] ^ reached[net.heads]",
        "explainers/test_flow.py",
    ),
    Mutant(
        "optimus: ranks turned round",
        "explainers/optimus.py",
        "rankdata(-np.abs(weights)",
        "rankdata(np.abs(weights)",
        "explainers/test_optimus.py",
    ),
    Mutant(
        "read-out: shares that do not sum to one",
        "models/tracing.py",
        "(weight / weight.sum().clamp_min(1e-30)).tolist()",
        "(weight / weight.max().clamp_min(1e-30)).tolist()",
        "models/test_hf.py::test_readout_of_a_mean_pool_is_everywhere_alike",
    ),
    # relevance
    Mutant(
        "chefer: negative relevance kept",
        "explainers/relevance.py",
        ".clamp_min_(0)",
        ".clamp_min_(-9e9)",
        "explainers/test_relevance.py",
    ),
    Mutant(
        "chefer: residual forgotten",
        "explainers/relevance.py",
        "gained = gained + step if",
        "gained = step if",
        "explainers/test_relevance.py",
    ),
    Mutant(
        "chefer: product transposed across the decoder",
        "explainers/relevance.py",
        "normalised(r_aa).T @",
        "normalised(r_aa) @",
        "explainers/test_relevance.py",
    ),
    Mutant(
        "chefer-lrp: layers multiplied in reverse",
        "explainers/chefer_lrp.py",
        "(eye + layer) @ below",
        "below @ (eye + layer)",
        "explainers/test_chefer_lrp.py",
    ),
    Mutant(
        "lrp: negative inputs forgotten",
        "models/lrp.py",
        "return more * (s @ up) + less * (s @ down), None, None",
        "return more * (s @ up), None, None",
        "explainers/test_chefer_lrp.py",
    ),
    Mutant(
        "value zeroing: the token before",
        "models/zeroing.py",
        "value[torch.arange(len(tokens)), :, tokens] = 0",
        "value[torch.arange(len(tokens)), :, tokens - 1] = 0",
        "explainers/test_value_zeroing.py",
    ),
    Mutant(
        "value zeroing: layers in reverse",
        "explainers/value_zeroing.py",
        "reversed(layers), readout)",
        "layers, readout)",
        "explainers/test_value_zeroing.py",
    ),
    # removal
    Mutant(
        "occlusion: sign",
        "explainers/occlusion.py",
        "spread(values[0] - values[1:], groups",
        "spread(values[1:] - values[0], groups",
        "explainers/test_first.py",
    ),
    Mutant(
        "spread: a word's score on each of its tokens",
        "rows.py",
        "= value / len(positions)",
        "= value",
        "test_rows.py explainers/test_first.py",
    ),
    Mutant(
        "words: the last token instead of the sum",
        "types.py",
        "totals[word] += self.scores[position]",
        "totals[word] = self.scores[position]",
        "explainers/test_first.py",
    ),
    Mutant(
        "rows: values in the order of asking, not of running",
        "rows.py",
        "known.update(zip(chunk, values.tolist(), strict=True))",
        "known.update(zip(fresh[done : done + len(chunk)], values.tolist(), strict=True))",
        "test_rows.py",
    ),
    Mutant(
        "rows: chunks too large by one row",
        "rows.py",
        "(count + 1) * width <= tokens",
        "count * width <= tokens",
        "test_rows.py",
    ),
    Mutant(
        "delete: token types stay where they were",
        "rows.py",
        "tuple(types[t] for t in kept)",
        "types[: len(kept)]",
        "test_rows.py",
    ),
    Mutant(
        "delete: one token too few (off by one)",
        "rows.py",
        "kept = [t for t in range(stop) if t not in gone]",
        "kept = [t for t in range(stop - 1) if t not in gone]",
        "test_rows.py",
    ),
    Mutant(
        "pad: not hidden from attention",
        "rows.py",
        "hidden=tuple(t for t in out if t < stop)",
        "hidden=()",
        "test_rows.py",
    ),
    Mutant(
        "batch: padding attended to",
        "models/batch.py",
        "[1] * len(row) + [0] * (width - len(row))",
        "[1] * width",
        "models/test_hf.py::test_rows_do_not_depend_on_their_batch",
    ),
    Mutant(
        "batch: hidden tokens seen",
        "models/batch.py",
        "mask[i, list(row.hidden)] = 0",
        "mask[i, list(row.hidden)] = 1",
        "models/test_hf.py::test_each_operator_against_a_hand_built_input",
    ),
    Mutant(
        "target: read one position early",
        "models/batch.py",
        "[begin - 1 + len(tail) for begin, tail in zip(begins, tails, strict=True)]",
        "[max(begin - 2 + len(tail), 0) for begin, tail in zip(begins, tails, strict=True)]",
        "models/test_hf.py::test_rows_trace_and_the_raw_model_agree",
    ),
    Mutant(
        "contrast: sum instead of difference",
        "types.py",
        "chosen - logits[:, self.contrast]",
        "chosen + logits[:, self.contrast]",
        "test_targets.py",
    ),
    Mutant(
        "contrast of sequences: sum instead of difference",
        "types.py",
        "this.score(logits[:half]) - that.score(logits[half:])",
        "this.score(logits[:half]) + that.score(logits[half:])",
        "test_contrast_sequences.py",
    ),
    Mutant(
        "contrast of sequences: the second end does not see the text",
        "models/branches.py",
        "whole[..., size:, :shared] = second[..., shared:, :shared]",
        "whole[..., size:, :shared] = 0 * second[..., shared:, :shared]",
        "test_contrast_sequences.py::test_attention_is_that_of_the_two_passes",
    ),
    Mutant(
        "contrast of sequences: gradients of the text from one side alone",
        "models/branches.py",
        "whole[:shared] += second[:shared]",
        "pass",
        "test_contrast_sequences.py::test_output_and_gradient_are_differences",
    ),
    Mutant(
        "gradients: out of memory is not halved",
        "rows.py",
        "left[:0] = [chunk[:half], chunk[half:]]",
        "raise",
        "models/test_gradient_chunks.py test_rows.py",
    ),
    Mutant(
        "cost: the shared beginning for nothing",
        "models/prefix.py",
        "with self.meter.counted(unique=1, tokens=len(self.ids)):",
        "with self.meter.counted():",
        "models/test_prefix.py",
    ),
    Mutant(
        "anchors: judged by the rows that chose it",
        "explainers/anchors.py",
        "rows, fresh = min(CHECK, sampler.left), Arm(arm.units)",
        "rows, fresh = min(CHECK, sampler.left), arm",
        "explainers/test_anchors.py",
    ),
    Mutant(
        "anchors: the anchor's words removed",
        "explainers/anchors.py",
        "keep[:, list(arm.units)] = True",
        "keep[:, list(arm.units)] = False",
        "explainers/test_anchors.py",
    ),
    Mutant(
        "search: the worst orders kept",
        "explainers/search.py",
        "key=lambda order: -order.area)[:beam]",
        "key=lambda order: order.area)[:beam]",
        "explainers/test_search.py",
    ),
    Mutant(
        "search: nothing to remove",
        "explainers/search.py",
        "max(len(orders[0].removed), 1)",
        "len(orders[0].removed)",
        "test_checks.py::test_on_the_linear_model[search]",
    ),
    # theory
    Mutant(
        "lime: kernel without the root",
        "theory/lime_limit.py",
        "(1 - np.sqrt(1 - share)) / nu",
        "share / nu",
        "explainers/test_lime.py::test_published_fit_is_the_lime_packages",
    ),
    Mutant(
        "lime: no ridge in the published fit",
        "explainers/lime.py",
        "_ridge(data[:, chosen], values, weights, 1.0)",
        "_ridge(data[:, chosen], values, weights, 0.0)",
        "explainers/test_lime.py::test_published_fit_is_the_lime_packages",
    ),
    Mutant(
        "lime: moments from s = 0",
        "theory/lime_limit.py",
        "s = np.arange(1, d + 1)",
        "s = np.arange(d)",
        "theory/test_lime_limit.py",
    ),
    Mutant(
        "lime-exact: the text itself counted as a draw",
        "theory/lime_limit.py",
        "unperturbed = everything / d",
        "unperturbed = 0.0 * everything / d",
        "explainers/test_exact.py",
    ),
    Mutant(
        "fit: unweighted regression",
        "theory/sampling.py",
        "(mass / np.maximum(counts, 1))[kept]",
        "np.ones(len(kept))",
        "explainers/test_kernel_shap.py::test_all_masks_give_the_shapley_value",
    ),
    Mutant(
        "fit: ridge where none should be",
        "theory/sampling.py",
        "vt[:rank].T / s[:rank]",
        "vt[:rank].T / (s[:rank] + 1e-3)",
        "theory/test_sampling.py",
    ),
    Mutant(
        "standard errors: as if no mask could be left over",
        "theory/sampling.py",
        "np.sqrt(1 - drawn)",
        "np.sqrt(1 + 0 * drawn)",
        "explainers/test_kernel_shap.py::test_few_words_are_exact",
    ),
    Mutant(
        "kernel-shap: weights of another kernel",
        "explainers/kernel_shap.py",
        "(d - 1) / (kept * (d - kept))",
        "(d - 1) / (kept * kept)",
        "explainers/test_kernel_shap.py::test_all_masks_give_the_shapley_value",
    ),
    Mutant(
        "kernel-shap: the rise left out",
        "explainers/kernel_shap.py",
        " + gap / d",
        "",
        "explainers/test_kernel_shap.py::test_linear_functions_are_recovered",
    ),
    Mutant(
        "shapley-exact: absent words keep their weight",
        "theory/ratio_game.py",
        "without_j[q] = ((rest[:, None] * e0 / share)",
        "without_j[q] = ((rest[:, None] * e1 / share)",
        "explainers/test_exact.py",
    ),
    # together
    Mutant(
        "windows: scores added up instead of averaged",
        "run.py",
        "part.scores / len(parts)",
        "part.scores",
        "test_run.py::test_windows_are_the_mean_of_their_pieces",
    ),
    Mutant(
        "memory: rows of one target serve another (stale cache)",
        "run.py",
        "memory = self._rows.setdefault((x, target), ",
        "memory = self._rows.setdefault((x, None), ",
        "test_run.py::test_rows_are_remembered_for_their_own_target_only",
    ),
    Mutant(
        "memory: rows of one operator serve another",
        "rows.py",
        "return Row(x.ids[:stop], types, blank=out)",
        "return Row(x.ids[:stop], types)",
        "test_rows.py",
    ),
    Mutant(
        "budget: what was run is not taken off",
        "run.py",
        "else self._until - self.model.spent.unique",
        "else self._until",
        "test_run_budget.py",
    ),
    Mutant(
        "agreement: sizes and signs mixed",
        "agreement.py",
        "signed[i] and signed[j]",
        "(signed[i] or signed[j])",
        "test_agreement.py",
    ),
    Mutant(
        "agreement: two words the wrong way round",
        "agreement.py",
        "np.sign(a[1] - a[0])",
        "np.sign(a[0] - a[1])",
        "test_agreement.py",
    ),
    Mutant(
        "untouched: modes not put back",
        "models/scoped.py",
        'part["training"] = mode',
        'part["training"] = False',
        "models/test_untouched.py",
    ),
    Mutant(
        "untouched: hooks left behind",
        "models/scoped.py",
        "part[name].clear()\n",
        "pass\n",
        "models/test_untouched.py",
    ),
    # conventions: what heedful.checks looks for on every explainer, and the order of chunks
    Mutant(
        "gradients: chunks joined in reverse",
        "models/tokens.py",
        "grads = torch.cat([grad for _, grad in parts])",
        "grads = torch.cat([grad for _, grad in parts[::-1]])",
        "models/test_gradient_chunks.py",
    ),
    Mutant(
        "value zeroing: chunks joined in reverse",
        "models/zeroing.py",
        "return torch.cat(found, 1)",
        "return torch.cat(found[::-1], 1)",
        "test_checks.py::test_on_each_kind_of_model[value-zeroing-bert]",
    ),
    Mutant(
        "random: drawn from global state",
        "explainers/random.py",
        "np.random.default_rng(seed)",
        "np.random.mtrand",
        "test_checks.py::test_on_the_linear_model[random]",
    ),
    Mutant(
        "smoothgrad: drawn from global state",
        "explainers/paths.py",
        ", generator=draw)",
        ")",
        "test_checks.py::test_on_the_linear_model[smoothgrad]",
    ),
    # evidence: people, glass boxes, retraining
    Mutant(
        "roar: test texts keep their words",
        "evidence/roar.py",
        "imputer.fill(text, out, rng)",
        "imputer.fill(text, out & (split is train), rng)",
        "evidence/test_roar.py",
    ),
    Mutant(
        "roar: random removal drawn once for all seeds",
        "evidence/roar.py",
        "np.random.default_rng([seed, s])",
        "np.random.default_rng([seed, 0])",
        "evidence/test_roar.py",
    ),
    Mutant(
        "roar: the worst go first",
        "evidence/roar.py",
        "ranked(scores, rng)[:",
        "ranked(-scores, rng)[:",
        "evidence/test_roar.py",
    ),
    Mutant(
        "roar: the pattern shows the words",
        "evidence/roar.py",
        "imputer.pattern(out) if bare",
        "imputer.fill(text, out, rng) if bare",
        "evidence/test_roar.py",
    ),
    Mutant(
        "fall: spread over texts forgotten",
        "evidence/fall.py",
        "total = by_seed + by_text",
        "total = by_seed",
        "evidence/test_fall.py",
    ),
    Mutant(
        "fall: pairs not corrected for",
        "evidence/fall.py",
        "(1 - LEVEL) / 2 / comparisons",
        "(1 - LEVEL) / 2",
        "evidence/test_fall.py",
    ),
    Mutant(
        "fall: length alone is called a leak",
        "evidence/fall.py",
        "if m < methods - 1:",
        "if m < 0:",
        "evidence/test_fall.py",
    ),
    Mutant(
        "impute: neighbours the wrong way round",
        "evidence/impute.py",
        "(1 - share) * vectors[kept[left]] + share * vectors[kept[right]]",
        "share * vectors[kept[left]] + (1 - share) * vectors[kept[right]]",
        "evidence/test_impute.py",
    ),
    Mutant(
        "impute: noise of one size for all coordinates",
        "evidence/impute.py",
        "spread = noise * table.std(0)",
        "spread = noise * table.std()",
        "evidence/test_impute.py",
    ),
    Mutant(
        "glass box: what is known is not discounted",
        "evidence/glassbox.py",
        "spread = x.T @ w - np.sum(",
        "spread = x.T @ w - 0 * np.sum(",
        "evidence/test_gold.py",
    ),
    Mutant(
        "glass box: ridge on the constant",
        "evidence/glassbox.py",
        "np.diag([0.0, *[1.0]",
        "np.diag([1.0, *[1.0]",
        "evidence/test_gold.py",
    ),
    Mutant(
        "gold: trained on the held-out texts",
        "evidence/gold.py",
        "train, test = order[held:], order[:held]",
        "train, test = order, order[:held]",
        "evidence/test_gold.py",
    ),
    Mutant(
        "gold: negative scores come last",
        "evidence/gold.py",
        'ranked(np.abs(unit_scores(item, x.units("word"))), rng)',
        'ranked(unit_scores(item, x.units("word")), rng)',
        "evidence/test_gold.py",
    ),
    Mutant(
        "plausibility: equal scores in reading order",
        "evidence/plausibility.py",
        "np.diff(scores[order]) != 0",
        "np.ones(len(order) - 1, dtype=bool)",
        "evidence/test_plausibility.py",
    ),
    Mutant(
        "plausibility: half is not enough",
        "evidence/plausibility.py",
        ">= threshold for own in predicted",
        "> threshold for own in predicted",
        "evidence/test_plausibility.py",
    ),
    Mutant(
        "plausibility: macro as the mean of F1",
        "evidence/plausibility.py",
        "return harmonic(float(precision), float(recall))",
        "return float(np.mean([f1(*row) for row in counts]))",
        "evidence/test_plausibility.py",
    ),
    Mutant(
        "compactness: signs kept",
        "evidence/compactness.py",
        "np.sort(np.abs(scores))",
        "np.sort(scores)",
        "evidence/test_compactness.py",
    ),
    Mutant(
        "rationales: marks of a passage not cut at its end",
        "evidence/rationales.py",
        "if a < end and b > start",
        "if b > start",
        "evidence/test_rationales.py",
    ),
    Mutant(
        "rationales: white space marks a word",
        "evidence/rationales.py",
        " if not x.text[i].isspace()}",
        "}",
        "evidence/test_rationales.py",
    ),
    Mutant(
        "rationales: a word needs all of its tokens",
        "evidence/rationales.py",
        "any(i in marked for t in positions for i in range(*x.offsets[t]))",
        "all(i in marked for t in positions for i in range(*x.offsets[t]))",
        "evidence/test_rationales.py",
    ),
    # what to type again
    Mutant(
        "reproduce: parameters are dropped",
        "view/repeat.py",
        'options += [("--param", params)]',
        "options += []",
        "test_reproduce.py::test_an_explanation_made_in_python_gets_a_command",
    ),
    Mutant(
        "reproduce: one option is dropped",
        "cli/typed.py",
        'OUTPUTS = frozenset(["html",',
        'OUTPUTS = frozenset(["seed", "html",',
        "test_reproduce.py::test_generate_says_how_to_make_it_again",
    ),
    Mutant(
        "reproduce: of an option that is repeated the last alone",
        "command_line.py",
        "for one in value if isinstance(value, list | tuple) else [value]:",
        "for one in value[-1:] if isinstance(value, list | tuple) else [value]:",
        "test_reproduce.py::test_steer_says_how_to_make_it_again",
    ),
    Mutant(
        "reproduce: a text that looks like an option is one",
        "command_line.py",
        '[*before, *words, "--", argument] if argument[:1] == "-" else [*before, argument, *words]',
        "[*before, argument, *words]",
        "test_reproduce.py",
    ),
    # labels
    Mutant(
        "labels: a number is a position although names are numbers",
        "labels.py",
        "key == found[1] and any(WHOLE.fullmatch(own) for own in keys)",
        "False",
        "test_labels.py",
    ),
    Mutant(
        'labels: "1.0" is no position',
        "labels.py",
        r"(\d+)(\.0*)?",
        r"(\d+)()",
        "test_labels.py",
    ),
    # metrics that explain again
    Mutant(
        "nudge: special tokens are moved, too",
        "evidence/nudge.py",
        "i if special else size + t",
        "size + t",
        "evidence/test_nudge.py::test_every_family_reads_the_moved_text",
    ),
    Mutant(
        "nudge: every token gets the first one's shift",
        "evidence/nudge.py",
        "out + shift.to(out)[place], out)",
        "out + shift.to(out)[0 * place], out)",
        "evidence/test_nudge.py::test_a_moved_word_keeps_its_move_when_others_go",
    ),
    Mutant(
        "nudge: the table is left as it was inside",
        "evidence/nudge.py",
        (
            '        del vars(part)["forward"]\n'
            "        if own is not None:\n"
            '            vars(part)["forward"] = own\n'
        ),
        ("        pass\n"),
        "evidence/test_nudge.py::test_an_error_inside_leaves_the_table_as_it_was",
    ),
    Mutant(
        "local-lipschitz: distance not divided by the text's norm",
        "evidence/robustness.py",
        "lipschitz(subject.scores, scores, distances / size)",
        "lipschitz(subject.scores, scores, distances)",
        "evidence/test_robustness.py::test_by_hand_on_a_sum",
    ),
    Mutant(
        "max-sensitivity: mean instead of the largest",
        "evidence/robustness.py",
        "np.linalg.norm(others - scores, axis=1).max() / np.linalg.norm(scores)",
        "np.linalg.norm(others - scores, axis=1).mean() / np.linalg.norm(scores)",
        "evidence/test_robustness.py::test_max_sensitivity_is_captums",
    ),
    Mutant(
        "robustness: the run's memory is asked for moved texts",
        "evidence/robustness.py",
        "again = subject.again(bare(subject.model), moved",
        "again = subject.again(subject.model, moved",
        "evidence/test_robustness.py::test_a_run_that_remembers_gives_the_same",
    ),
    Mutant(
        "edits: places not moved by earlier pieces",
        "evidence/edits.py",
        "return start + moved, end + moved",
        "return start, end",
        "evidence/test_edits.py::test_places_by_hand",
    ),
    Mutant(
        "edits: every edit counts, whatever it does to the output",
        "evidence/edits.py",
        "if change > TOLERANCE:",
        "if change > 1e9:",
        "evidence/test_edits.py::test_the_trail_says_what_counts_and_why_not",
    ),
    Mutant(
        "vsi: pairs of a run with itself",
        "evidence/consistency.py",
        "len(np.intersect1d(a, b)) / p for a, b in combinations(sets, 2)",
        "len(np.intersect1d(a, b)) / p for a in sets for b in sets",
        "evidence/test_consistency.py::test_vsi_by_hand",
    ),
    Mutant(
        "csi: units seen in one run count as unstable",
        "evidence/consistency.py",
        "shares += [float(np.mean(meet))] if meet else []",
        "shares += [float(np.mean(meet))] if meet else [0.0]",
        "evidence/test_consistency.py::test_csi_by_hand",
    ),
    Mutant(
        "csi: errors of ridge with an intercept column's degree of freedom",
        "evidence/consistency.py",
        "values - full @ line)) / (n - p)",
        "values - full @ line)) / (n - p - 1)",
        "evidence/test_consistency.py::test_ridge_errors_by_the_formula",
    ),
    Mutant(
        "completeness: base forgotten",
        "evidence/axioms.py",
        "incompleteness(np.array(item.total), item.output - base)",
        "incompleteness(np.array(item.total), item.output)",
        "evidence/test_axioms.py::test_who_is_held_to_completeness",
    ),
    Mutant(
        "sensitivity: a change under one operator is enough",
        "evidence/axioms.py",
        "~idle.any(0) & silent",
        "~idle.all(0) & silent",
        "evidence/test_axioms.py::test_violations_by_hand",
    ),
    Mutant(
        "equal networks: keys do not follow their heads",
        "evidence/equal_networks.py",
        "for layer in (query, key, value):",
        "for layer in (query, value):",
        "evidence/test_equal_networks.py::test_heads_change_places_and_the_output_does_not",
    ),
    Mutant(
        "equal networks: twins are not held to the outputs",
        "evidence/equal_networks.py",
        "if gap > CLOSE:",
        "if gap > 1e9:",
        "evidence/test_equal_networks.py::test_a_twin_that_answers_otherwise_is_left_out",
    ),
    Mutant(
        "sanity: the cascade starts at the bottom",
        "evidence/sanity.py",
        "layers = list(reversed(layers_of(copy.module).items()))",
        "layers = list(layers_of(copy.module).items())",
        "evidence/test_sanity.py::test_the_curve_goes_from_the_top_down_and_leaves_the_model_alone",
    ),
    Mutant(
        "sanity: independent layers are not put back",
        "evidence/sanity.py",
        "tensor.data.copy_(old)",
        "old.copy_(tensor.data)",
        "evidence/test_sanity.py::test_cascading_adds_up_and_independent_does_not",
    ),
    Mutant(
        "copies: functions still read the original",
        "evidence/copies.py",
        "CellType(redirected(cell.cell_contents, memo))",
        "CellType(cell.cell_contents)",
        "evidence/test_copies.py::test_functions_are_led_to_the_copy",
    ),
    Mutant(
        "check_metric: chance is never held to the truth",
        "checks/metrics.py",
        "assert gain >= -SLACK",
        "assert gain >= -1e9",
        "evidence/test_metric_checks.py::test_one_that_prefers_chance",
    ),
    Mutant(
        "check_metric: lower is never better",
        "checks/metrics.py",
        '(1 if bench.metric.better == "high" else -1)',
        "1",
        "evidence/test_metric_checks.py::test_an_honest_metric_passes",
    ),
    # the textbook
    Mutant(
        "attention: softmax over queries",
        "nn/attention.py",
        "weights = scores.softmax(dim=-1)",
        "weights = scores.softmax(dim=-2)",
        "nn/test_attention.py",
    ),
    Mutant(
        "attention: divided by d, not by its root",
        "nn/attention.py",
        "/ math.sqrt(query.shape[-1])",
        "/ query.shape[-1]",
        "nn/test_attention.py",
    ),
    Mutant(
        "causal mask: off by one",
        "nn/attention.py",
        "device=device).tril()",
        "device=device).tril(1)",
        "nn/test_attention.py",
    ),
    Mutant(
        "additive score: tanh of the key alone",
        "nn/attention.py",
        "torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))",
        "query.unsqueeze(-2) + torch.tanh(key.unsqueeze(-3))",
        "nn/test_attention.py",
    ),
    Mutant(
        "additive score: every head has the vector of the first",
        "nn/attention.py",
        "(both * u[..., None, None, :])",
        "(both * u.reshape(-1, u.shape[-1])[0])",
        "nn/test_attention.py",
    ),
    Mutant(
        "transformer: embeddings without their scale",
        "nn/transformer.py",
        "math.sqrt(self.config.width) * self.token(ids)",
        "self.token(ids)",
        "nn/test_transformer.py",
    ),
    Mutant(
        "transformer: cross-attention sees padding",
        "nn/transformer.py",
        "look(self.cross, h, memory, masks[1], cross)",
        "look(self.cross, h, memory, torch.zeros_like(masks[1]), cross)",
        "nn/test_transformer.py",
    ),
    Mutant(
        "transformer: the MLP before cross-attention",
        "nn/transformer.py",
        """        y = self.add(y, self.norm_cross, lambda h: look(self.cross, h, memory, masks[1], cross))
        return self.add(y, self.norm2, self.mlp)
""",
        """        y = self.add(y, self.norm2, self.mlp)
        return self.add(y, self.norm_cross, lambda h: look(self.cross, h, memory, masks[1], cross))
""",
        "nn/test_transformer.py",
    ),
    Mutant(
        "transformer: loss counts padding",
        "nn/transformer.py",
        ", ignore_index=pad)",
        ")",
        "nn/test_transformer.py",
    ),
    Mutant(
        "top-k: the k-th left out",
        "nn/decode.py",
        "logits.masked_fill(logits < worst, -math.inf)",
        "logits.masked_fill(logits <= worst, -math.inf)",
        "nn/test_decode.py",
    ),
    # labs with a known truth
    Mutant(
        "alignment: the row after the one that predicts",
        "labs/aligning.py",
        "layer.mean(1)[torch.arange(many), torch.arange(many)]",
        "layer.mean(1)[torch.arange(many), (torch.arange(many) + 1) % many]",
        "labs/test_alignment.py",
    ),
    Mutant(
        "alignment: gradients of the wrong stack",
        "labs/aligning.py",
        "grad_cross=tuple(g[cross])",
        "grad_cross=tuple(g[own])",
        "labs/test_alignment.py",
    ),
    Mutant(
        "toy language: an adjective owes its ending to itself",
        "labs/toy_language.py",
        "start + 1, noun))",
        "start + 1, start + 1))",
        "labs/test_alignment.py",
    ),
    Mutant(
        "stories: the first sentence about the person is the fact",
        "labs/stories.py",
        "longest - 1 - mine[:, ::-1].argmax(1)",
        "mine.argmax(1)",
        "labs/test_supporting_fact.py",
    ),
    Mutant(
        "stories: the question reaches sentences read alone",
        "labs/stories.py",
        "alone: Tensor = self.alone(s).tanh()",
        "alone: Tensor = self.alone(s + self.question(some)[:, None]).tanh()",
        "labs/test_supporting_fact.py",
    ),
    Mutant(
        "supporting-fact: weights never move",
        "labs/story_measures.py",
        "said = model.read(moved, h).argmax(-1)",
        "said = model.read(alpha.expand_as(moved), h).argmax(-1)",
        "labs/test_supporting_fact.py",
    ),
    # attention atlas
    Mutant(
        "atlas: maps of the wrong layer",
        "heads/capture.py",
        "    return np.stack(layers)\n",
        "    return np.stack(layers[::-1])\n",
        "heads/test_atlas.py",
    ),
    Mutant(
        "atlas: cross and decoder maps exchanged",
        "heads/capture.py",
        '("cross", "cross", answer, text)',
        '("cross", "cross", text, text)',
        "heads/test_atlas.py",
    ),
    Mutant(
        "atlas: gradients of a target in the middle at the end",
        "heads/capture.py",
        "full[layer, :, : values.shape[1], : values.shape[2]] = values",
        "full[layer, :, -values.shape[1] :, -values.shape[2] :] = values",
        "heads/test_atlas.py",
    ),
    Mutant(
        "atlas: any square map is causal",
        "heads/capture.py",
        "not np.triu(weights.any((0, 1)), 1).any()",
        "True",
        "heads/test_atlas.py",
    ),
    Mutant(
        "words: mean to a split word",
        "heads/words.py",
        "    return np.asarray(np.add.reduceat(matrix[..., _order(columns)], _starts(columns), axis=-1))",
        "    total = np.add.reduceat(matrix[..., _order(columns)], _starts(columns), axis=-1)\n"
        "    return np.asarray(total / np.array([len(part) for part in columns]))",
        "heads/test_map_words.py",
    ),
    Mutant(
        "words: sum from a split word",
        "heads/words.py",
        "    return np.asarray(summed(matrix, queries, keys) / sizes[:, None])",
        "    return np.asarray(summed(matrix, queries, keys))",
        "heads/test_map_words.py",
    ),
    Mutant(
        "words: special tokens merged",
        "heads/words.py",
        '("word", word) if word >= 0 else ("alone", position)',
        '("word", word)',
        "heads/test_map_words.py",
    ),
    Mutant(
        "words: special mass of special queries, too",
        "heads/words.py",
        "[q for q, special in enumerate(side.special) if not special] or ",
        "",
        "heads/test_map_words.py",
    ),
    Mutant(
        "kinds: uniform is not the zero",
        "heads/kinds.py",
        "(mass - control[rows].sum()) / left",
        "mass / rows.sum()",
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "kinds: the mask forgotten in the control",
        "heads/words.py",
        "np.broadcast_to(np.tril(every) if maps.causal else every, (maps.layers, *every.shape))",
        "np.broadcast_to(every, (maps.layers, *every.shape))",
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "kinds: previous and next exchanged",
        "heads/kinds.py",
        '"previous": np.eye(size, k=-1, dtype=bool), "next": np.eye(size, k=1',
        '"previous": np.eye(size, k=1, dtype=bool), "next": np.eye(size, k=-1',
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "kinds: a full stop that looks at itself counts",
        "heads/kinds.py",
        "np.tile(keys, (len(maps.queries), 1)) & ~_own(maps)",
        "np.tile(keys, (len(maps.queries), 1))",
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "kinds: block before pointed",
        "heads/kinds.py",
        "if best is not None and found[best] >= POINTED:",
        "if best is not None and found[best] >= POINTED and found.get('block', 0) < BLOCK:",
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "kinds: texts a rule does not apply to count as zero",
        "heads/kinds.py",
        "number = np.tensordot(counts, there.astype(np.float64), 1)",
        "number = np.tensordot(counts, np.ones_like(table), 1)",
        "heads/test_head_kinds.py",
    ),
    Mutant(
        "distance: no smoothing",
        "heads/distance.py",
        "part = (1 - SMOOTH) * part + SMOOTH / keys",
        "part = part + 1e-30",
        "heads/test_head_distance.py",
    ),
    Mutant(
        "distance: last rows lost",
        "heads/distance.py",
        "for start in range(0, queries, rows):",
        "for start in range(0, queries - rows + 1, rows):",
        "heads/test_head_distance.py",
    ),
    Mutant(
        "distance: points not scaled",
        "heads/distance.py",
        "scale = np.sqrt(values[top].clip(0))",
        "scale = np.ones(len(top))",
        "heads/test_head_distance.py",
    ),
    Mutant(
        "aggregate: rollout from the bottom",
        "heads/aggregate.py",
        "above @ below, reversed(steps))",
        "above @ below, steps)",
        "heads/test_aggregate.py",
    ),
    Mutant(
        "aggregate: negative gradients count",
        "heads/aggregate.py",
        "(a * g).clip(0)",
        "np.abs(a * g)",
        "heads/test_aggregate.py",
    ),
    Mutant(
        "aggregate: flow not divided",
        "heads/aggregate.py",
        "found.append(flows / flows.sum())",
        "found.append(flows)",
        "heads/test_aggregate.py",
    ),
    Mutant(
        "aggregate: words rolled out from merged maps",
        "heads/atlas.py",
        'if self.tokens is None or how == "max":',
        'if self.tokens is None or how in ("max", "rollout"):',
        "heads/test_aggregate.py",
    ),
    Mutant(
        "links: words that look at themselves shown",
        "heads/links.py",
        "np.fill_diagonal(shown, False)",
        "pass",
        "test_attention_cli.py",
    ),
    Mutant(
        "door: padding counts as allowed",
        "models/attending.py",
        "shown > torch.finfo(shown.dtype).min / 2",
        "shown >= torch.finfo(shown.dtype).min",
        "models/test_attending.py",
    ),
    Mutant(
        "door: shared values in the wrong order",
        "models/attending.py",
        "values = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)",
        "values = value.repeat(1, weights.shape[1] // value.shape[1], 1, 1)",
        "models/test_attending.py",
    ),
    Mutant(
        "door: outer edits lost",
        "models/attending.py",
        "edits, calls = (*outer, edit), dict.fromkeys(sites, 0)",
        "edits, calls = (edit,), dict.fromkeys(sites, 0)",
        "models/test_attending.py",
    ),
    Mutant(
        "door: shared layers all the first",
        "models/attending.py",
        "calls[id(module)] += 1",
        "pass",
        "models/test_attending.py",
    ),
    Mutant(
        "ablation: only the first stack named",
        "heads/ablation.py",
        'yield from _checked(stack or "self", int(layer)',
        'yield from _checked("self", int(layer)',
        "heads/test_ablation.py",
    ),
    Mutant(
        "adversary: infeasible ones count",
        "debate/climb.py",
        "apart = layer.apart(some, layer.own).masked_fill(moved > self.epsilon, -1.0)",
        "apart = layer.apart(some, layer.own)",
        "debate/test_adversary.py",
    ),
    Mutant(
        "adversary: steps forget what the answer costs",
        "debate/linear_steps.py",
        "z = logs - scale * torch.einsum",
        "z = logs - 0 * scale * torch.einsum",
        "debate/test_linear_steps.py",
    ),
    Mutant(
        "adversary: follows without looking at the answer",
        "debate/follow.py",
        "(jacobian.double().cpu() * layer.mass * layer.free).flatten(2, 3)",
        "(0 * jacobian.double().cpu() * layer.mass * layer.free).flatten(2, 3)",
        "debate/test_line_search.py",
    ),
    Mutant(
        "adversary: special tokens dealt out too",
        "debate/movable.py",
        "free = allowed & words & (own * words)",
        "free = allowed & (own * words)",
        "debate/test_adversary.py",
    ),
    Mutant(
        "permutation: uniform copy not told apart",
        "debate/permutation.py",
        "weights[level] = uniform(seen)[level]",
        "pass",
        "debate/test_permutation.py",
    ),
    Mutant(
        "correlation: attention not held fixed",
        "debate/correlation.py",
        "seen.reweighed(seen.weights.detach())",
        "seen.reweighed(seen.weights)",
        "debate/test_correlation.py",
    ),
    Mutant(
        "trained adversary: rewarded for staying",
        "debate/trained_adversary.py",
        "return kept - weight * apart(passed, base, _kl).mean() if weight else kept",
        "return kept + weight * apart(passed, base, _kl).mean() if weight else kept",
        "debate/test_trained_adversary.py",
    ),
    Mutant(
        "guide: padding shuffled in",
        "debate/guide.py",
        ".masked_fill(data.mask == 0, 2.0)",
        "",
        "debate/test_guide.py",
    ),
    Mutant(
        "trial: marked texts on both sides",
        "debate/marks.py",
        "rest = [pair for pair in marked if pair[0].text not in away]",
        "rest = marked",
        "debate/test_trial.py::test_marked_texts_are_split_and_never_on_both_sides",
    ),
    Mutant(
        "trial: pinned told as free",
        "debate/conclusion.py",
        "if len(free) == len(adversaries):",
        "if free:",
        "debate/test_trial.py::test_the_conclusion_follows_how_far_attention_can_go",
    ),
    Mutant(
        "trial: two zeros compared",
        "debate/told.py",
        "return abs(found.value) < SEEN and abs(found.control) < SEEN",
        "return False",
        "debate/test_trial.py::test_two_zeros_are_not_compared",
    ),
    Mutant(
        "trial: a difference nobody sees is told",
        "debate/told.py",
        "return low > high and low - high >= SEEN",
        "return low > high",
        "debate/test_trial.py::test_shuffling_is_read_beside_a_deleted_word",
    ),
    # features: dictionaries, their training, the store, steering
    Mutant(
        "sae: relu's penalty forgets the decoder norm",
        "features/architectures/relu.py",
        "(codes.sum(0) @ lengths) / len(x)",
        "codes.sum() / len(x)",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: relu-tied with its bias untied",
        "features/architectures/relu_tied.py",
        'x - params["b_dec"], params["enc"].T).relu()',
        'x, params["enc"].T).relu()',
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: topk trains with its bias untied",
        "features/sparse.py",
        "select(x - pre_bias, enc, b_enc)",
        "select(x, enc, b_enc)",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: topk reads with its bias untied",
        "features/architectures/topk.py",
        'sparse.search(x - params["b_dec"]',
        "sparse.search(x",
        "features/test_foreign.py",
    ),
    Mutant(
        "sae: gradient of the tied bias through the encoder forgotten",
        "features/sparse.py",
        "-(to_bias @ enc)",
        "0 * (to_bias @ enc)",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: gradient of the encoder from inputs that are not centred",
        "features/sparse.py",
        "active.transposed(grad) @ (x - pre_bias)",
        "active.transposed(grad) @ x",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: k off by one while reading",
        "features/architectures/topk.py",
        'params["b_enc"], config["k"])',
        'params["b_enc"], config["k"] + 1)',
        "features/test_architectures.py::test_topk_keeps_k_a_row_and_batchtopk_k_a_row_on_average",
    ),
    Mutant(
        "sae: k off by one while training",
        "features/architectures/topk.py",
        "return values.reshape(-1), sparse.regular(latents, settings.width)",
        "values[values == values.amin(1, keepdim=True)] = 0\n"
        "        return values.reshape(-1), sparse.regular(latents, settings.width)",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: batchtopk keeps one less",
        "features/architectures/batchtopk.py",
        "len(everyone) - total + 1)",
        "len(everyone) - total + 2)",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: stale dead counts",
        "features/dictionary.py",
        ".masked_fill_(counts > 0, 0)",
        "",
        "features/test_sae_training.py::test_silence_is_counted_in_rows_and_ends_with_a_firing",
    ),
    Mutant(
        "sae: a latent that fires is revived as dead",
        "features/architectures/topk.py",
        "dead = (silent & (memory.crew.total(fired) == 0)).nonzero()[:, 0]",
        "dead = silent.nonzero()[:, 0]",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: dead counts lost in a checkpoint",
        "features/checkpoint.py",
        'Memory(tensors["silent"], ',
        'Memory(torch.zeros_like(tensors["silent"]), ',
        "features/test_sae_resume.py",
    ),
    Mutant(
        "sae: dead counts kept after resampling",
        "features/train.py",
        "run.memory.silent[dead] = 0",
        "pass",
        "features/test_sae_training.py::test_resampled_latents_start_with_no_moments",
    ),
    Mutant(
        "sae: moments kept after resampling",
        "features/train.py",
        "moment[dead] = 0.0",
        "moment[dead] *= 1.0",
        "features/test_sae_training.py::test_resampled_latents_start_with_no_moments",
    ),
    Mutant(
        "sae: resampling by the loss, not its square",
        "features/architectures/relu_tied.py",
        "errors.double().square()",
        "errors.double()",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: inputs scaled by the square",
        "features/train.py",
        "(settings.d / mean_square_norm(rows, settings.batch, settings.seed)) ** 0.5",
        "settings.d / mean_square_norm(rows, settings.batch, settings.seed)",
        "features/test_sae_training.py::test_inputs_are_scaled_to_mean_square_norm_d",
    ),
    Mutant(
        "sae: scale not folded into the threshold",
        "features/sae.py",
        "threshold / scale)",
        "threshold)",
        "features/test_sae_training.py::test_the_threshold_follows_the_smallest_kept_activation",
    ),
    Mutant(
        "sae: gradient along decoders kept",
        "features/dictionary.py",
        "grad.addcmul_(along, dec, value=-1)",
        "grad.addcmul_(along, dec, value=0)",
        "features/test_sae_training.py::test_gradients_along_decoders_are_removed",
    ),
    Mutant(
        "sae: decoders grow",
        "features/train.py",
        '            renormalise_(params["dec"])',
        "            pass",
        "features/test_sae_training.py::test_decoders_stay_at_length_one",
    ),
    Mutant(
        "sae: jumprelu's kernel without the threshold",
        "features/architectures/jumprelu.py",
        "* -theta / ctx.eps",
        "* -1 / ctx.eps",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: matryoshka judges the whole alone",
        "features/architectures/matryoshka.py",
        "torch.stack(errors).mean()",
        "errors[-1]",
        "features/test_architectures.py",
    ),
    Mutant(
        "sae: a batch is taken twice after resuming",
        "features/train.py",
        "rows.batches(s.batch, s.seed, start=run.step):",
        "rows.batches(s.batch, s.seed, start=max(0, run.step - 1)):",
        "features/test_sae_resume.py",
    ),
    Mutant(
        "harvest: no rename",
        "features/folder.py",
        'beside = path.with_name(f".{path.name}.part")',
        "beside = path",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: renamed before it is on disk",
        "features/folder.py",
        "        file.flush()\n        os.fsync(file.fileno())\n    beside",
        "        file.flush()\n    beside",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: progress before the rows are on disk",
        "features/shuffle.py",
        "                file.flush()\n                os.fsync(file.fileno())\n            replace",
        "                pass\n            replace",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: manifest before the shards",
        "features/shuffle.py",
        "            for number, rows in enumerate(self._shards(), start=first):",
        "            ahead = asdict(state) | {'generation': state.generation + 1, 'inside': 0}\n"
        "            replace(self.part / 'progress.json', to_json(ahead))\n"
        "            for number, rows in enumerate(self._shards(), start=first):",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: rows counted twice after a kill",
        "features/shuffle.py",
        "os.truncate(path, size)",
        "pass",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "steer: the error term is lost",
        "features/steer.py",
        "return (torch.stack(new, 1) - old) @ sae.W_dec[features]",
        "return sae(x) - x + (torch.stack(new, 1) - old) @ sae.W_dec[features]",
        "features/test_steer.py",
    ),
    Mutant(
        "harvest: a batch read twice after a kill",
        "features/harvest.py",
        "if count > done:",
        "if count >= done:",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: sums begin anew after a kill",
        "features/harvest.py",
        "state.squares += taken.squares",
        "state.squares = taken.squares"
        " + (state.squares if state.rows > self.before + len(taken.rows) else 0.0)",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: the rest of a batch lost after a generation",
        "features/harvest.py",
        "        self.scatter.add(taken.rows)  # first: what it keeps on the way must "
        "not count this batch as done\n        state.batches += 1\n",
        "        state.batches += 1\n        self.scatter.add(taken.rows)\n",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "harvest: what a generation took of a batch comes twice",
        "features/shuffle.py",
        "        rows = rows[self.state.partly :]\n",
        "",
        "features/test_harvest.py::test_kills_change_no_byte",
    ),
    Mutant(
        "features of a text: special tokens are edited",
        "features/attributions.py",
        "return codes.masked_fill(special, 0.0), codes",
        "return codes, codes",
        "features/test_special_tokens.py",
    ),
    Mutant(
        "features of a text: what special tokens do is taken from the text",
        "features/attributions.py",
        "apart = [outside[:, chosen] @",
        "apart = [codes[:, chosen] @",
        "features/test_special_tokens.py",
    ),
    Mutant(
        "chance: some tokens get some activations more often",
        "features/chance.py",
        "return np.roll(row, rng.integers(len(row)))",
        "return row",
        "features/test_chance.py",
    ),
    Mutant(
        "chance: equal scores do not count as reached",
        "features/chance.py",
        ">= seen[number] - ROUNDING",
        "> seen[number] + ROUNDING",
        "features/test_chance.py",
    ),
    Mutant(
        "steer: places forget the cache",
        "features/positions.py",
        "torch.arange(self.past, self.past + length)",
        "torch.arange(length)",
        "features/test_steer.py",
    ),
    Mutant(
        "recovered: the ablated loss in place of the clean one",
        "features/losses.py",
        'self.by_edit[worst] - self.by_edit["clean"], seed',
        "self.by_edit[worst], seed",
        "features/test_measure.py",
    ),
    Mutant(
        "universality: correlations about zero",
        "features/universality.py",
        "self.ab - torch.outer(self.a, self.b) / self.n",
        "self.ab",
        "features/test_universality.py",
    ),
    Mutant(
        "probing: judged on the half that chose",
        "features/probing.py",
        "right[~train] = told(z[~train][:, columns]) == y[~train]",
        "right[train] = told(z[train][:, columns]) == y[train]",
        "features/test_probing.py",
    ),
)


@contextmanager
def planted(mutant: Mutant) -> Iterator[Path]:
    """A folder that holds the package with the bug in it."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "heedful"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "zoo"))
        (copy / "zoo").symlink_to(SOURCE / "zoo")  # weights are data, and large
        (copy / mutant.file).write_text(mutant.applied(), encoding="utf-8")
        yield Path(folder)


def run(mutant: Mutant) -> tuple[str, str]:
    """(verdict, the last line pytest printed)."""
    with planted(mutant) as folder:
        told = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not real"]
            + [f"tests/{tests}" for tests in mutant.tests.split()],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
    last = told.stdout.strip().rsplit("\n", 1)[-1]
    return verdict(told.returncode, last), last


def verdict(code: int, last: str) -> str:
    """Of pytest's exit code and last line: a failed assertion is a catch, a failed collection is not."""
    if code == 0 and re.search(r"\d+ passed", last):
        return SURVIVED
    caught = code == 1 and re.search(r"\d+ failed", last) and not re.search(r"\d+ error", last)
    return CAUGHT if caught else BROKEN


def main(words: list[str]) -> int:
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    bad = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for mutant, (found, last) in zip(chosen, pool.map(run, chosen), strict=True):
            print(f"{found:9} {mutant.name:55} {last}", flush=True)
            bad += found != CAUGHT
    print(f"{len(chosen) - bad} of {len(chosen)} caught")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
