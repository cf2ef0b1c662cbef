"""The learners as scikit-learn's estimators."""
