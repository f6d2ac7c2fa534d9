"""Capabilities: what a release can be asked, and what parties send each other."""

from uedp_bench.contracts.capabilities import Classifier as Classifier
from uedp_bench.contracts.capabilities import Completer as Completer
from uedp_bench.contracts.capabilities import Encoder as Encoder
from uedp_bench.contracts.capabilities import Generator as Generator
from uedp_bench.contracts.capabilities import LabelOnly as LabelOnly
from uedp_bench.contracts.capabilities import PairScorer as PairScorer
from uedp_bench.contracts.capabilities import Predictor as Predictor
from uedp_bench.contracts.capabilities import Question as Question
from uedp_bench.contracts.capabilities import RowScorer as RowScorer
from uedp_bench.contracts.capabilities import Scorer as Scorer
from uedp_bench.contracts.capabilities import Tagger as Tagger
from uedp_bench.contracts.capabilities import Tokenised as Tokenised
from uedp_bench.contracts.capabilities import TokenScores as TokenScores
from uedp_bench.contracts.capabilities import Translator as Translator
from uedp_bench.contracts.capabilities import capability as capability
from uedp_bench.contracts.capabilities import class_labels as class_labels
from uedp_bench.contracts.masked_model import MaskFiller as MaskFiller
from uedp_bench.contracts.mechanism import ServedRelease as ServedRelease
from uedp_bench.contracts.mechanism import SplitRelease as SplitRelease
from uedp_bench.contracts.release import Channel as Channel
from uedp_bench.contracts.release import Compilable as Compilable
from uedp_bench.contracts.release import EntityDetector as EntityDetector
from uedp_bench.contracts.release import PlainNetwork as PlainNetwork
from uedp_bench.contracts.release import Published as Published
from uedp_bench.contracts.release import Updates as Updates
from uedp_bench.contracts.release import protected_rows as protected_rows
from uedp_bench.contracts.release import published_of as published_of
from uedp_bench.contracts.release import seen_of as seen_of
from uedp_bench.contracts.release import word_channel_of as word_channel_of
from uedp_bench.contracts.transcript import Message as Message
from uedp_bench.contracts.transcript import Messages as Messages
from uedp_bench.contracts.transcript import Sent as Sent
from uedp_bench.contracts.transcript import Size as Size
from uedp_bench.contracts.transcript import Transcript as Transcript
from uedp_bench.text.word_occurrences import WordChannel as WordChannel

__all__ = sorted(name for name in globals() if not name.startswith("_"))
