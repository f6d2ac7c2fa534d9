"""What is known of a metric by its name: label, unit, range, and which way is better.

Components need not register here: a name that nobody knows is shown as it is, without a direction.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from uedp_bench.results import Headline

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Metric:
    """How a metric is read.

    Attributes:
        name: in results; one that ends in '*' stands for all names that begin so.
        label: in tables; what '*' stood for is appended.
        about: one sentence for readers.
        better: for who protects the text: less leakage is better. None where neither way is
            (references, floors, counts).
        percent: a fraction that tables show in percent.
        unit: where it has one.
        low, high: no honest value lies outside.
        nothing: what it is where nothing leaks; less is chance, and no better.
        main: shown in tables unless readers choose.
    """

    name: str
    label: str
    about: str = ""
    better: Better | None = None
    percent: bool = False
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    main: bool = False
    nothing: float | None = None


def _rate(name: str, label: str, about: str, better: Better | None = None, **more: Any) -> Metric:
    return Metric(name, label, about, better, percent=True, low=0.0, high=1.0, **more)


def _share(name: str, label: str, about: str, better: Better | None = None, **more: Any) -> Metric:
    return replace(_rate(name, label, about, better, **more), percent=False)


_BLIND = 1.0 / math.log(2.0)
"""Expected exposure of what was never seen: bits."""


_UTILITY = (
    Metric("perplexity", "perplexity", "exp of the mean nats a word of the original test text",
           "lower", low=1.0, main=True),
    _rate("error", "error", "share of test rows whose class is predicted wrong", "lower",
          main=True),
    _rate("macro_f1", "macro-F1", "mean over classes of the F1 score", "higher", main=True),
    _rate("accuracy", "accuracy", "share of predictions that are right, of words among those in "
          "the vocabulary", "higher", main=True),
    _rate("accuracy_with_unknown", "accuracy with unknown", "the same, where predicting an unknown "
          "word as unknown is right too", "higher"),
    _rate("misclassified", "misclassified", "share of substituted words that a classifier of "
          "words takes for another class", "lower", main=True),
    _rate("unchanged", "unchanged", "share of words that stayed as they were", None, main=True),
    Metric("distance", "distance", "mean Euclidean distance of substitutes from their words",
           "lower", low=0.0),
    _rate("unknown", "unknown", "share of words that have no vector"),
    Metric("bleu", "BLEU", "corpus BLEU of whole sentences, 0 to 100", "higher", low=0.0,
           high=100.0, main=True),
    Metric("chrf", "chrF", "n-grams of characters, 0 to 100", "higher", low=0.0, high=100.0,
           main=True),
    Metric("length_ratio", "length", "tokens of translations by those of references", low=0.0),
    _share("brevity_penalty", "brevity penalty", "what BLEU takes off for short translations"),
    _rate("term_recall", "term recall", "of words that no public translation has", "higher",
          main=True),
    Metric("copy_bleu", "BLEU of copies", "floor: the text itself", low=0.0, high=100.0),
    Metric("lexicon_bleu", "BLEU of a public lexicon", "floor: word by word", low=0.0, high=100.0),
    Metric("train_lexicon_bleu", "BLEU of a training lexicon", "word by word, without privacy",
           low=0.0, high=100.0),
    _rate("f1_strict", "entity F1", "of entities with the right words and type", "higher",
          main=True),
    _rate("precision", "precision", "share of predicted entities that are right", "higher"),
    _rate("recall", "recall", "share of the entities that are found", "higher"),
    _rate("f1_exact", "F1, exact", "of entities with the right words, whatever type", "higher"),
    _rate("f1_partial", "F1, partial", "of entities, half for an overlap", "higher"),
    _rate("f1_type", "F1, type", "of entities of the right type that overlap", "higher"),
    _rate("type_f1_paper", "F1, type (paper)", "of entities, half for an overlap of the right "
          "type", "higher"),
    _rate("partial_f1_paper", "F1, partial (paper)", "of entities, half for any overlap but a "
          "right one", "higher"),
    _rate("weighted_token_f1", "token F1", "mean of the F1 of each label by its share of the words,"
          " words outside of entities among them, which flatters", "higher", main=True),
    _rate("all_outside_weighted_token_f1", "token F1, all outside", "of finding no entity at all"),
    _rate("all_outside_f1", "entity F1, all outside", "of finding no entity at all"),
    _rate("dictionary_f1", "dictionary's F1", "entity F1 of looking up the entities of public "
          "text"),
    _rate("covered", "covered", "share of the mentions that people labelled of which a detector "
          "leaves nothing, by whatever type", "higher", main=True),
    _rate("covered_entities", "covered entities", "share of the labelled entities of a user all "
          "of whose mentions are covered", "higher", main=True),
    _rate("hidden", "hidden", "share of all characters that are replaced", main=True),
    _rate("recall_type", "recall, type", "share of the mentions of which something of the right "
          "type is found", "higher"),
    _rate("names_left", "names left", "share of the labelled mentions that still stand in what was "
          "published", "lower", main=True),
    _rate("rows_left", "rows with names left", "share of the rows with labels in which one still "
          "stands", "lower"),
    _rate("nothing_covered", "covered by nothing", "of a detector that finds nothing"),
    Metric("perplexity_token", "perplexity a token", "compares within one vocabulary only",
           "lower", low=1.0),
    Metric("perplexity_known", "perplexity of known words", "exp of the mean nats a target in the "
           "vocabulary", "lower", low=1.0),
    Metric("pseudo_perplexity", "pseudo-perplexity", "exp of the mean nats a word of the original "
           "test text, each word hidden from the model", "lower", low=1.0, main=True),
    Metric("pseudo_perplexity_known", "pseudo-perplexity of known words", "the same, of words "
           "without an unknown piece", "lower", low=1.0),
    Metric("pseudo_perplexity_open", "open pseudo-perplexity", "the same, where a word with an "
           "unknown piece is spelt as well, at ln 256 nats a byte", "lower", low=1.0, main=True),
    Metric("pseudo_perplexity_piece", "pseudo-perplexity a piece", "compares within one vocabulary "
           "only", "lower", low=1.0),
    _rate("frequent_accuracy", "accuracy, frequent words", "of hidden words that are among the 100 "
          "most frequent ones of public text", "higher"),
    _rate("middle_accuracy", "accuracy, middle words", "of hidden words that are among the next "
          "900 of public text", "higher"),
    _rate("rare_accuracy", "accuracy, rare words", "of all other hidden words", "higher"),
    _rate("oov_rate", "unknown words", "share of targets outside the vocabulary: predicting that a "
          "word is unknown is easy, and flatters perplexity", main=True),
    Metric("loss", "loss", "nats a token of the test targets, given their texts", "lower", low=0.0,
           unit="nats"),
    Metric("other_text_loss", "loss, other text", "the same, given the text of another test row",
           low=0.0, unit="nats"),
    Metric("unigram_loss", "loss of unigrams", "of frequencies of tokens in public targets",
           low=0.0, unit="nats"),
    Metric("train_unigram_loss", "loss of training unigrams", "of frequencies of tokens in the "
           "training targets, without privacy", low=0.0, unit="nats"),
    Metric("unigram_perplexity", "unigram floor", "of word counts, without privacy", low=1.0),
    Metric("bigram_perplexity", "bigram floor", "of counts of pairs, without privacy", low=1.0),
    _rate("constant_accuracy", "constant guess", "accuracy of the most frequent known word"),
    _rate("majority_error", "majority's error", "of the most frequent class, without privacy"),
    _rate("tfidf_error", "TF-IDF's error", "of logistic regression on words, without privacy"),
    _rate("random_error", "random error", "of guessing classes as often as they occur"),
)  # fmt: skip

_LEAKAGE = (
    Metric("exposure_max_repeats", "exposure", "mean bits of the most repeated canaries; 1.44 "
           "where nothing leaks", "lower", unit="bits", low=0.0, main=True, nothing=_BLIND),
    Metric("exposure_entity", "entity exposure", "mean bits of canaries that are labelled names; "
           "1.44 where nothing leaks", "lower", unit="bits", low=0.0, main=True, nothing=_BLIND),
    Metric("exposure_entity_spread_*", "exposure, spread", "mean bits of the entity canaries that "
           "so many other users mention", "lower", unit="bits", low=0.0, main=True, nothing=_BLIND),
    Metric("exposure_mean", "exposure, all", "mean bits of all canaries", "lower", unit="bits",
           low=0.0, nothing=_BLIND),
    Metric("exposure_limit", "exposure limit", "what exposure by rank can reach at most",
           unit="bits", low=0.0, main=True),
    *(
        Metric(f"exposure_{form}_*", f"exposure, {form}", "mean bits of secret words of this "
               "layout in so many rows; 1.44 where nothing leaks", "lower", unit="bits", low=0.0,
               nothing=_BLIND)
        for form in ("HS", "HSH", "HHSHH")
    ),
    _rate("extracted_filling", "extracted (gap)", "share of planted secret words that rank first "
          "among all words in their gap", "lower", main=True),
    _rate("secrets_scored", "secrets ranked", "share of secret words that are a token of the "
          "vocabulary; the others have no exposure"),
    _rate("extracted_random_sampling", "extracted (RS)", "share of word canaries that rank first "
          "among random references", "lower", main=True),
    _rate("extracted_beam_search", "extracted (BS)", "share of word canaries that beam search "
          "finds", "lower", main=True),
    _share("auc_user", "user AUC", "of telling users of the training data from others; 0.5 "
           "where nothing leaks", "lower", main=True, nothing=0.5),
    _share("auc_bag_of_words", "bag of words AUC", "of a classifier that sees no model: what "
          "membership must exceed to mean anything", main=True),
    Metric("vocabulary_advantage_*", "names in vocabulary, advantage", "share of planted names of "
           "so many users that are one token, less the share of names that nobody has", "lower",
           low=-1.0, high=1.0, nothing=0.0),
    _share("vocabulary_auc_*", "names in vocabulary, AUC", "of telling planted names from names "
           "that nobody has by the number of their pieces", "lower", nothing=0.5),
    _rate("vocabulary_found_*", "names in vocabulary", "share of planted names of so many users "
          "that are one token", "lower"),
    _rate("vocabulary_false_alarms", "names in vocabulary, of nobody", "share of names that nobody "
          "has that are one token"),
    _share("auc_retrainings", "AUC over retrainings", "of telling trainings with the canary from "
          "those without", "lower", nothing=0.5),
    _share("auc_inputs", "transcript AUC", "of telling two inputs apart from what the owner of the "
           "model sees opened; 0.5 where nothing leaks", "lower", main=True, nothing=0.5),
    _share("auc_models", "transcript AUC, models", "of telling two models apart from what the "
           "owner of the text sees opened", "lower", nothing=0.5),
    _rate("p_inputs", "p, inputs", "of the two-sample test on transcripts of two inputs"),
    _rate("p_models", "p, models", "of the two-sample test on transcripts of two models"),
    _rate("p_uniform", "p, uniform", "of the chi-square test of all opened bytes"),
    _rate("agreement", "copy agrees", "share of test rows to which a copy that was trained on "
          "answers gives the class of the release", "lower", main=True),
    _rate("agreement_majority", "copy agrees, majority", "of saying the most frequent answer"),
    _rate("agreement_public_labels", "copy agrees, public labels", "of a copy that was trained on "
          "public labels and asked nobody", main=True),
    _rate("accuracy", "copy's accuracy", "share of test rows whose class the copy tells", "lower"),
    _rate("accuracy_majority", "copy's accuracy, majority", "of saying the most frequent answer"),
    _rate("accuracy_public_labels", "copy's accuracy, public labels", "of a model of public "
          "labels"),
    _share("auc", "member AUC", "of telling training records from others; 0.5 where nothing "
           "leaks", "lower", main=True, nothing=0.5),
    _rate("tpr_at_1pct_fpr", "TPR at 1 % FPR", "share of members found at one false alarm in a "
          "hundred", "lower", main=True, nothing=0.01),
    _rate("tpr_at_0.1pct_fpr", "TPR at 0.1 % FPR", "share of members found at one false alarm in "
          "a thousand", "lower", nothing=0.001),
    _rate("tpr_user_at_1pct_fpr", "user TPR at 1 % FPR", "share of member users found at one "
          "false alarm in a hundred users", "lower", main=True, nothing=0.01),
    _rate("tpr_user_at_0.1pct_fpr", "user TPR at 0.1 % FPR", "share of member users found at one "
          "false alarm in a thousand users", "lower", nothing=0.001),
    Metric("loss_gap", "loss gap", "loss of held-out records less that of training records, a "
           "token of text; 0 where nothing is memorised", "lower", unit="nats", nothing=0.0),
    _rate("empirical_privacy", "empirical privacy", "1 - the attacker's accuracy, mean over "
          "private attributes", "higher", main=True),
    _rate("empirical_privacy_majority", "majority's privacy", "the same of always guessing the "
          "most frequent class: what hides all", main=True),
    _rate("empirical_privacy_*", "empirical privacy", "1 - the attacker's score, as named",
          "higher"),
    _rate("accuracy_*", "accuracy", "of guessing the attribute", "lower"),
    _rate("majority_*", "majority", "of always guessing the attribute's most frequent class"),
    _rate("fairness_gap_*", "fairness gap", "largest difference of the task's accuracy between "
          "groups", "lower"),
    Metric("gain_bits", "inversion gain", "bits a text that the representation tells beyond the "
           "label", "lower", unit="bits", main=True, nothing=0.0),
    Metric("gain_average_precision", "inversion gain AP", "average precision beyond the label's",
           "lower", low=-1.0, high=1.0, main=True, nothing=0.0),
    _share("average_precision", "inversion AP", "average precision of the words that are "
           "predicted", "lower", main=True),
    _share("average_precision_prior", "prior's AP", "the same of the label alone"),
    Metric("bits", "inversion bits", "cross-entropy of a text's words given the representation",
           "higher", unit="bits", low=0.0),
    Metric("bits_prior", "prior's bits", "the same given the label alone", unit="bits", low=0.0),
    _share("f1", "inversion F1", "of the words that are predicted", "lower"),
    _share("f1_prior", "prior's F1", "the same of the label alone"),
    _rate("precision_at_*_prior", "prior's precision at", "the same of the label alone"),
    _rate("precision_at_*", "inversion precision at", "share of so many guessed words that are "
          "right", "lower"),
    _rate("recall_at_1", "recall at 1", "share of what is sought (authors, words) that ranks "
          "first", "lower", main=True),
    _rate("recall_at_10", "recall at 10", "share of what is sought that is among the first ten",
          "lower", main=True),
    _rate("recall_at_1_unprotected", "recall at 1, unprotected", "the same attack on the "
          "original text", main=True),
    _rate("recall_at_1_chance", "recall at 1, chance", "of guessing blindly"),
    _rate("recall_at_*_prior", "prior's recall at", "the same of the label alone"),
    _rate("recall_at_*", "recall at", "as named", "lower"),
    _share("inference_error_prior", "inference error, prior", "of guessing without the release"),
    _share("inference_error", "inference error", "of the best attacker who knows the mechanism",
          "higher", main=True),
    _share("inference_error_*", "inference error", "of the attacker named", "higher"),
    _rate("*_precision_guessed", "precision of guesses of", "of as many, the most frequent ones"),
    _rate("*_recall_guessed", "recall of guesses of", "of as many, the most frequent ones"),
    _rate("words_recall", "words read", "share of clients' words that a receiver of their messages "
          "names", "lower", main=True),
    _rate("words_precision", "words right", "share of the words that it names that are theirs",
          "lower"),
    _rate("names_recall", "names read", "share of clients' words of names that it names", "lower",
          main=True),
    _rate("names_precision", "names right", "share of the names that it names that are theirs",
          "lower", main=True),
    _rate("labels_recall", "labels read", "share of clients' labels that it names", "lower"),
    _rate("labels_precision", "labels right", "share of the labels that it names that are theirs",
          "lower"),
    Metric("exposure", "exposure of records", "mean bits of facts that a record and its text say",
           "lower", unit="bits", low=0.0, main=True),
    Metric("exposure_chance", "chance", "mean bits of facts that nobody saw", unit="bits", low=0.0,
           main=True),
    Metric("exposure_without_model", "without model", "mean bits of facts by the words around them "
           "alone", unit="bits", low=0.0, main=True),
    Metric("exposure_held_out", "exposure of others", "mean bits of facts of subjects who are held "
           "out", unit="bits", low=0.0, main=True),
    _rate("rows_recovered", "rows read", "share of short messages whose row is read word by word",
          "lower", main=True),
    _rate("sentences_recovered", "sentences reassembled", "share of sentences that published "
          "phrases give back whole", "lower", main=True),
    _rate("sentences_recovered_floor", "of other documents", "the same of phrases of other "
          "documents alone"),
    Metric("longest_run_median", "words in a row, median", "of a sentence, put together from "
           "published phrases", "lower", low=0.0),
    Metric("longest_run_90", "words in a row, 90th percentile", "the same of the tenth of "
           "sentences that are put together best", "lower", low=0.0),
    Metric("longest_run_median_floor", "words in a row of other documents", "the median, of "
           "phrases of other documents alone", low=0.0),
    _rate("run_precision", "right runs", "share of runs of eight words or more that stand in a "
          "sentence", "lower"),
    _rate("facts_joined", "facts joined", "share of pairs of entities of a sentence that one run "
          "has both of", "lower"),
    _rate("facts_joined_floor", "facts joined of other documents", "the same of phrases of other "
          "documents alone"),
    _rate("rows_rouge_l", "ROUGE-L of rows", "F1 of the longest common subsequence of a read "
          "row with the closest one of the client", "lower"),
    _rate("rows_rouge_l_random", "ROUGE-L, random order", "of random orders of the same words"),
    Metric("epsilon_of_auc*", "epsilon of the AUC", "of the Gaussian mechanism whose best attack "
           "has this AUC: far above a bound, the bound is weak; low too, the scores are", "lower",
           low=0.0),
    Metric("epsilon_*", "epsilon", "refuted from below by this audit", "lower", low=0.0),
)  # fmt: skip

_COST = (
    Metric("train_seconds", "train s", "seconds of training and publishing", "lower", unit="s",
           low=0.0, main=True),
    Metric("peak_memory_mb", "peak MB", "peak memory, of the GPU where it trains on one", "lower",
           unit="MB", low=0.0, main=True),
    Metric("message_mb_a_round", "MB a round", "10^6 bytes between parties in a round",
           "lower", unit="MB", low=0.0, main=True),
    Metric("message_bytes", "bytes sent", "between parties, in all rounds", "lower", low=0.0),
    Metric("bytes_sent_by_each_*", "bytes sent by each", "mean over parties of this role", "lower",
           low=0.0),
    Metric("bytes_received_by_each_*", "bytes received by each", "mean over parties of this role",
           "lower", low=0.0),
    Metric("mpc_rounds", "rounds", "messages of the protocol, one after the other", "lower",
           low=0.0),
    Metric("mpc_bytes_party", "bytes a party", "sent by the party that sends more", "lower",
           low=0.0),
    Metric("mpc_bytes_dealer", "bytes of the dealer", "corrections that the dealer sent", "lower",
           low=0.0),
    Metric("mpc_texts", "texts computed on", "answered by the protocol", low=0.0),
    Metric("mpc_lan_seconds", "LAN s", "modelled: CPU seconds, rounds of 0.25 ms, 6.4 Gbit/s",
           "lower", unit="s", low=0.0),
    Metric("mpc_wan_seconds", "WAN s", "modelled: CPU seconds, rounds of 40 ms, 100 Mbit/s",
           "lower", unit="s", low=0.0),
    Metric("resumed", "resumed", "times that the run went on from a checkpoint", "lower", low=0.0),
    Metric("*_seconds", "", "seconds of this phase", "lower", unit="s", low=0.0),
)  # fmt: skip

_DIAGNOSTICS = (
    Metric("signal_to_noise", "signal/noise", "norm of the clipped sum over the norm of the noise",
           low=0.0, main=True),
)  # fmt: skip

_KNOWN: dict[str, tuple[Metric, ...]] = {
    "utility": _UTILITY,
    "leakage": _LEAKAGE,
    "cost": _COST,
    "diagnostics": _DIAGNOSTICS,
}


@lru_cache(maxsize=10_000)
def metric(kind: str, name: str) -> Metric:
    """What is known of a metric.

    Args:
        kind: "utility", "leakage", "cost" or "diagnostics".
        name: as results write it.

    Returns:
        The metric under that name; its name as the label where it is not known.
    """
    for known in _KNOWN.get(kind, ()):
        head, star, tail = known.name.partition("*")
        if name == known.name:
            return known
        if star and name.startswith(head) and name.endswith(tail) and name != known.name:
            rest = name.removeprefix(head).removesuffix(tail).replace("_", " ")
            label = f"{known.label} {rest}".strip() if known.label else f"{rest} s"
            return replace(known, name=name, label=label)
    return Metric(name, name.replace("_", " "))


def ranking(known: Metric, ranked_by: Headline | None) -> Metric:
    """The metric, with the direction that results give it where it ranks them."""
    if ranked_by is None or ranked_by.metric != known.name:
        return known
    return replace(known, better="higher" if ranked_by.larger_is_better else "lower", main=True)


RESERVED = ("utility", "cost", "diagnostics", "claimed", "stated", "proven", "at_least", "params",
            "floor", "epsilon_at", "headline", "learned")  # fmt: skip
"""What other columns than those of attacks begin with."""


def column_prefix(attack: str) -> str:
    """What the columns of an attack begin with, whatever it is called.

    Columns are named PREFIX.METRIC; no two attacks have one prefix, and no attack that of a kind.
    """
    name = quoted(attack)
    return f"%{name}" if name in RESERVED else name


def quoted(name: str) -> str:
    """A name as a part of a column's name, where a dot divides: no two names become one.

    A dot between a figure and another stays, for names of rates have it: tpr_at_0.1pct_fpr.
    """
    return _DIVIDES.sub("%2E", name.replace("%", "%25"))


_DIVIDES = re.compile(r"(?<!\d)\.|\.(?!\d)")


def order(kind: str, name: str) -> int:
    """The place of a metric among those of its kind; unknown ones come last."""
    for at, known in enumerate(_KNOWN.get(kind, ())):
        head, star, tail = known.name.partition("*")
        if name == known.name or (star and name.startswith(head) and name.endswith(tail)):
            return at
    return len(_KNOWN.get(kind, ()))
