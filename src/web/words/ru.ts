import type * as en from "./en.ts";
import { countedIn } from "./plurals.ts";

const counted = countedIn("ru");

export const shared: typeof en.shared = {
  product: "Tollgate",
  skipToContent: "К содержанию",
  navigation: "Разделы",
  none: "—",
  copy: "Скопировать",
  copied: "Скопировано",
  copyFailed: "Браузер не разрешил копирование. Выделите текст и скопируйте его сами.",
  copyCsv: "Скопировать CSV",
  copiedRows: (count) =>
    `Скопировано в CSV: ${counted(count, { one: "строка", few: "строки", many: "строк", other: "строки" })}`,
  close: "Закрыть",
  cancel: "Отмена",
  confirm: "Подтвердить",
  dismiss: "Скрыть",
  retry: "Повторить",
  more: "Показать ещё",
  loading: "Загрузка",
  reload: "Обновить",
  search: "Поиск",
  clear: "Очистить",
  optional: "необязательно",
  before: "Было",
  after: "Станет",
  total: "Всего",
  other: (count) =>
    counted(count, { one: "другая", few: "другие", many: "других", other: "других" }),
  requests: (count) =>
    counted(count, { one: "запрос", few: "запроса", many: "запросов", other: "запроса" }),
  tokens: (count) =>
    counted(count, { one: "токен", few: "токена", many: "токенов", other: "токена" }),
  accounts: (count) =>
    counted(count, { one: "счёт", few: "счёта", many: "счетов", other: "счёта" }),
  keys: (count) => counted(count, { one: "ключ", few: "ключа", many: "ключей", other: "ключа" }),
  days: (count) => counted(count, { one: "день", few: "дня", many: "дней", other: "дня" }),
  empty: "Здесь пока ничего нет",
  nothingFound: "Ничего не найдено",
  opensElsewhere: "откроется в новой вкладке",
  loadFailed: "Не удалось загрузить.",
  shownEarlier: "Показаны данные до сбоя.",
  noConnection: "Нет связи со шлюзом.",
  badAnswer: "Шлюз прислал ответ, который эта страница не может прочитать.",
  retryAfter: (seconds) =>
    `Повторите через ${counted(seconds, { one: "секунду", few: "секунды", many: "секунд", other: "секунды" })}.`,
  spans: {
    label: "Период",
    "24h": "24 часа",
    "7d": "7 дней",
    "30d": "30 дней",
    "90d": "90 дней",
  },
  change: {
    up: (share) => `на ${share} больше, чем за период до этого`,
    down: (share) => `на ${share} меньше, чем за период до этого`,
    none: "столько же, сколько за период до этого",
    noneText: "без изменений",
    fresh: "за период до этого ничего не было",
    freshText: "впервые",
  },
  meter: { of: (used, limit) => `${used} из ${limit}` },
  sort: (column) => `Упорядочить: ${column}`,
  chart: {
    form: "Вид",
    chart: "График",
    table: "Таблица",
    time: "Время",
    day: "День (UTC)",
    hour: "Час",
    cursor: (caption) => `${caption}: прочитать значения`,
    empty: "За этот период данных нет",
    wholeSpan: "Весь период",
    daysAreUtc: "Дни по UTC.",
    hoursAreLocal: (zone) => `Часы: ${zone}.`,
  },
  status: {
    running: "идёт",
    done: "готово",
    failed: "ошибка",
    cancelled: "отменён",
    interrupted: "прерван",
  },
  expired: "истёк",
};

export const page: typeof en.page = {
  title: "Ваш ключ",
};

export const console: typeof en.console = {
  title: "Консоль",
  views: {
    "": "Обзор",
    accounts: "Счета",
    keys: "Ключи",
    requests: "Запросы",
    providers: "Провайдеры",
    vouchers: "Ваучеры",
    audit: "Проверка",
  },
  session: {
    over: "Консоль не открыта",
    howToOpen:
      "Её адрес работает один раз, а час без действий её закрывает. Запустите на сервере эту команду ещё раз и откройте адрес, который она напечатает:",
    lost: "Нет связи с консолью. Страница продолжает попытки. Если команда завершилась, запустите её ещё раз.",
    end: "Завершить",
  },
  foot: (state, timeZone) =>
    `Tollgate ${state.version}. Изменения записываются от имени ${state.actor}. База: ${state.database}. Время: ${timeZone}.`,
};
