"""Certificates in MLflow runs."""

from __future__ import annotations

from skfairdp.certificate import Certificate
from skfairdp.fairness.scopes import DEPLOYED


def log_certificate(certificate: Certificate) -> None:
    """Log a certificate to the MLflow run that is active.

    Figures become metrics: ``epsilon`` and ``delta``, unless privacy is void, and ``gap_bound_``
    with the notion's name for the deployed model; bounds of another scope have its name at the
    end, such as ``gap_bound_demographic_parity_averaged_over_its_draws``. The model's digest and
    the sentence become tags, and the certificate is stored whole as ``certificate.json``,
    ``certificate.html`` and ``model_card.md``. Everything that is logged is in the certificate:
    no row, no loss, no score.

    Parameters
    ----------
    certificate : Certificate
        What `certify` returned.

    Raises
    ------
    ImportError
        Without mlflow.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_certificate(certificate)
    """
    try:
        import mlflow
    except ImportError as error:
        raise ImportError("This needs MLflow: pip install skfairdp[mlflow]") from error
    privacy = certificate.privacy
    figures = {}
    for claim in certificate.fairness:
        # A bound of another scope says nothing about this one model.
        scope = "" if claim.scope == DEPLOYED else f"_{claim.scope.replace(' ', '_')}"
        figures[f"gap_bound_{claim.notion}{scope}"] = claim.bound
    if privacy is not None and not privacy.is_void:  # some stores turn infinity into a number
        figures |= {"epsilon": privacy.epsilon, "delta": privacy.delta}
    mlflow.log_metrics(figures)
    digest, sentence = certificate.model_digest, certificate.sentence
    mlflow.set_tags({"skfairdp.model_digest": digest, "skfairdp.sentence": sentence})
    mlflow.log_text(certificate.to_json(), "certificate.json")
    mlflow.log_text(certificate.to_html(), "certificate.html")
    mlflow.log_text(certificate.to_model_card(), "model_card.md")
