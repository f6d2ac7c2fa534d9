"""Networks: tasks that train one, learners, models, and vocabularies."""

from uedp_bench.contracts.capabilities import Vocabulary as Vocabulary
from uedp_bench.contracts.learner import Batch as Batch
from uedp_bench.contracts.learner import Learner as Learner
from uedp_bench.contracts.learner import Losses as Losses
from uedp_bench.contracts.learner import Role as Role
from uedp_bench.contracts.learner import Rows as Rows
from uedp_bench.contracts.learner import Schedule as Schedule
from uedp_bench.contracts.learner import SplitLearner as SplitLearner
from uedp_bench.contracts.learner import on_device as on_device
from uedp_bench.contracts.learner import row_seeds as row_seeds
from uedp_bench.contracts.learner import take_over as take_over
from uedp_bench.contracts.masked_model import MaskedLanguageModel as MaskedLanguageModel
from uedp_bench.contracts.masked_model import MaskedModule as MaskedModule
from uedp_bench.contracts.masked_model import MaskedVocabulary as MaskedVocabulary
from uedp_bench.contracts.model import BringsHead as BringsHead
from uedp_bench.contracts.model import EmbedsTokens as EmbedsTokens
from uedp_bench.contracts.model import FeatureModule as FeatureModule
from uedp_bench.contracts.model import HasOutputLayer as HasOutputLayer
from uedp_bench.contracts.model import LanguageModel as LanguageModel
from uedp_bench.contracts.model import NextTokenModule as NextTokenModule
from uedp_bench.contracts.model import PairVocabulary as PairVocabulary
from uedp_bench.contracts.model import ReadsTokenVectors as ReadsTokenVectors
from uedp_bench.contracts.model import StopsAtEnds as StopsAtEnds
from uedp_bench.contracts.model import TextEncoder as TextEncoder
from uedp_bench.contracts.model import TextModel as TextModel
from uedp_bench.contracts.model import TokenEncoder as TokenEncoder
from uedp_bench.contracts.model import TranslationModel as TranslationModel
from uedp_bench.contracts.model import TranslationModule as TranslationModule
from uedp_bench.contracts.model import WordRows as WordRows
from uedp_bench.contracts.model import load_weights as load_weights
from uedp_bench.contracts.model import save_weights as save_weights
from uedp_bench.contracts.task import WordCounts as WordCounts
from uedp_bench.models.word_vocabularies import WordModel as WordModel
from uedp_bench.models.word_vocabularies import WordParams as WordParams
from uedp_bench.models.word_vocabularies import WordText as WordText
from uedp_bench.models.word_vocabularies import WordVocabulary as WordVocabulary
from uedp_bench.tasks.tokens.reader import Reader as Reader
from uedp_bench.tasks.tokens.supervised import SupervisedParams as SupervisedParams
from uedp_bench.tasks.tokens.supervised import SupervisedTask as SupervisedTask

__all__ = sorted(name for name in globals() if not name.startswith("_"))
