"""Preprocessors: `ray.data.preprocessors`.

scaler       numbers to a common scale
normalizer   rows to length one
transformer  numbers to a more normal distribution
encoder      categories to numbers
imputer      missing values filled
concatenator several columns into one
discretizer  numbers to bins
tokenizer, vectorizer, hasher   text and features to numbers
torch        functions of torchvision
chain        one after the other
"""

from __future__ import annotations

from skate.data.preprocessor import Preprocessor as Preprocessor
from skate.data.preprocessor import PreprocessorNotFittedException as PreprocessorNotFittedException
from skate.data.preprocessors.chain import Chain
from skate.data.preprocessors.concatenator import Concatenator
from skate.data.preprocessors.discretizer import CustomKBinsDiscretizer, UniformKBinsDiscretizer
from skate.data.preprocessors.encoder import (
    Categorizer,
    LabelEncoder,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
)
from skate.data.preprocessors.hasher import FeatureHasher
from skate.data.preprocessors.imputer import SimpleImputer
from skate.data.preprocessors.normalizer import Normalizer
from skate.data.preprocessors.scaler import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from skate.data.preprocessors.tokenizer import Tokenizer
from skate.data.preprocessors.torch import TorchVisionPreprocessor
from skate.data.preprocessors.transformer import PowerTransformer
from skate.data.preprocessors.vectorizer import CountVectorizer, HashingVectorizer

__all__ = [
    "Categorizer", "Chain", "Concatenator", "CountVectorizer", "CustomKBinsDiscretizer", "FeatureHasher", "HashingVectorizer",
    "LabelEncoder", "MaxAbsScaler", "MinMaxScaler", "MultiHotEncoder", "Normalizer", "OneHotEncoder", "OrdinalEncoder",
    "PowerTransformer", "RobustScaler", "SimpleImputer", "StandardScaler", "Tokenizer", "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]  # fmt: skip
